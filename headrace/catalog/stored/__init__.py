"""Stores a catalog in parts, one for each partition, and reads it."""
