"""Reads and writes the tensors of a sample: `.pth` files, and raw values at an address."""

__all__ = ["outputs", "pth", "tensors", "unpickling"]
