"""Brings partitions up to date: plans shards, writes audio and latent shards, commits manifests and snapshots."""
