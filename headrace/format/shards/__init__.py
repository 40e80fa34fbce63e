"""Writes shards, and records which files of shards are new and which are about to be deleted."""

__all__ = ["condemned", "journal", "shard_files", "writer"]
