"""Decides which files and rows become samples, and which are rejected, with a reason for each rejection."""

__all__ = [
    "acceptance",
    "exclusions",
    "leaks",
    "quick_checks",
    "rivals",
    "row_acceptance",
    "row_fields",
    "row_hints",
    "validation",
]
