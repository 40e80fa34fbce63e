"""Scans a source: lists it, reads new and changed files, and joins the metadata."""
