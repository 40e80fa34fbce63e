"""Reads and commits snapshots: numbered states of a whole shard folder."""
