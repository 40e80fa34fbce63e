"""Computes which sample is in which row of which global batch, from the shard sizes alone (docs/order.md)."""

__all__ = ["batch_plan", "bijection", "epoch_order", "mixing", "passes", "phases", "shard_uses", "spec", "state"]
