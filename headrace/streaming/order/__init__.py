"""Which sample comes when: pure arithmetic, from shard sizes to the rows of every global batch (docs/order.md)."""
