"""Decides which files and rows become samples, and which are rejected, with a reason for each rejection."""
