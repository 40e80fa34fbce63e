"""Which shards a stream reads, and their bytes: in place, from the cache, or by ranges from a store."""
