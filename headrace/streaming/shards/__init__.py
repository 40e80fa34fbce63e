"""Finds the shards of a stream and reads their bytes: in place, from the cache, or by ranges from a store."""
