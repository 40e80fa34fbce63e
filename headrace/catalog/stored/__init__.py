"""Stores a catalog in parts, one for each partition, and reads it."""

__all__ = [
    "column_header",
    "empty_splits",
    "header",
    "parquet_files",
    "partitions",
    "parts",
    "storing",
    "unchanged",
    "update",
]
