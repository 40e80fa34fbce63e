"""Tools for data sets: inspect them, remove old snapshots, and index tars."""

__all__ = [
    "activity",
    "column_summary",
    "columns_export",
    "gc",
    "inspection",
    "left_behind",
    "takedown",
    "tar_indexes",
    "tar_views",
]
