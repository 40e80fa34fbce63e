"""Makes views: evaluates their conditions on columns, and balances groups of samples."""

__all__ = ["definitions", "expression", "making", "names", "syntax"]
