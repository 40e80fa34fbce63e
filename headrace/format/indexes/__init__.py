"""Makes, reads and checks the index of a shard."""
