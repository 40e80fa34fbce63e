"""Threads, processes and locks, without knowledge of samples."""

__all__ = ["descriptors", "file_locks", "fork_server", "forks", "host_lock", "lookahead", "parallel"]
