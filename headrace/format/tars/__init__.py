"""Reads and writes tars, and splits the names of their members."""
