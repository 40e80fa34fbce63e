"""Reads and writes tars, and splits the names of their members."""

__all__ = ["member_names", "name_lists", "tar", "tar_buffer", "tar_members", "tar_names", "unpacking"]
