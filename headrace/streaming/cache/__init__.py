"""Keeps shards in a folder that the processes of a host share, and reads byte ranges of open shards."""

__all__ = ["cache", "cache_readers", "coalesce", "download", "kept_arrays", "open_files", "opened"]
