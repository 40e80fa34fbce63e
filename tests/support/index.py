"""Shared by test_index and the tests beside it."""

from headrace.format.indexes.index_entries import build_index

NUM_BYTES = 1 << 40


def indexed(entries, **more):
    return build_index(entries, shard="a.tar", num_bytes=NUM_BYTES, **more)
