"""Samples before they are in a batch: their fields, their bytes in shards, and what is read of them."""
