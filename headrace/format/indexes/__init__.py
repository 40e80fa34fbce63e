"""Makes, reads and checks the index of a shard."""

__all__ = [
    "audio_fields",
    "foreign_indexes",
    "index",
    "index_entries",
    "index_files",
    "indexing",
    "seek_table",
    "seeking",
    "tar_faults",
]
