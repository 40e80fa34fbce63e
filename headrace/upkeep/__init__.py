"""Tools for data sets: inspect them, export them, remove old snapshots, and index tars."""

__all__ = ["activity", "column_summary", "columns_export", "export", "gc", "inspection", "takedown", "tar_indexes"]
