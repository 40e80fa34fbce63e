"""Computes which sample is in which row of which global batch, from the shard sizes alone (docs/order.md)."""
