"""Reads and commits snapshots: numbered states of a whole shard folder."""

__all__ = ["commits", "shard_table", "sizes_file", "snapshots", "summaries", "tar_lists"]
