"""Threads, processes and locks, without knowledge of samples."""
