"""Opens the places that recordings come from: lists them, and detects changes without opening a file."""

__all__ = [
    "bucket_source",
    "content_digests",
    "late_source",
    "listing",
    "named_files",
    "rows_ahead",
    "source_changes",
    "sources",
    "table_places",
]
