"""Runs through epochs: plans them, counts positions, and downloads shards ahead."""

__all__ = ["epoch_reader", "epochs", "next_uses", "other_loaders", "planner", "shard_tools"]
