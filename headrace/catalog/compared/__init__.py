"""Compares catalogs: what has changed, and what has become worse."""

__all__ = ["changes", "regressions", "type_changes"]
