"""Threads, processes and locks, without knowledge of samples."""

__all__ = ["descriptors", "fork_server", "host_lock", "lookahead", "parallel"]
