"""Finds the shards of a stream and reads their bytes: in place, from the cache, or by ranges from a store."""

__all__ = [
    "access",
    "column_reader",
    "indexed_tars",
    "remote",
    "shard_names",
    "shard_set",
    "view_shards",
    "window_shards",
]
