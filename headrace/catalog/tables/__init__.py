"""Reads the tables of users in pieces, and joins tables that need not fit in memory."""

__all__ = [
    "buckets",
    "corpus_tables",
    "declared_types",
    "interval_rows",
    "json_lines",
    "metadata_files",
    "parquet_tables",
    "row_origins",
    "sorted_tables",
]
