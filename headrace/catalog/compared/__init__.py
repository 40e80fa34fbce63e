"""Compares catalogs: what has changed, and what has become worse."""

__all__ = ["changes", "findings", "regressions", "type_changes"]
