"""Files beside the shards: columns and views."""

__all__ = ["column_files", "column_sets", "column_table", "intervals", "labels", "view_files", "views"]
