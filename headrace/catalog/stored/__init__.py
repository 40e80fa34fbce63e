"""Stores a catalog in parts, one for each partition, and reads it."""

__all__ = ["column_header", "header", "parquet_files", "partitions", "parts", "storing", "update"]
