"""Scans a source: lists it, reads new and changed files, and joins the metadata."""

__all__ = [
    "checkpoint",
    "early_listing",
    "scan",
    "scan_parts",
    "scan_runtime",
    "scan_tables",
    "scan_workers",
    "sidecar_contents",
]
