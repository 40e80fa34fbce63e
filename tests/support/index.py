"""Shared by test_index and the tests beside it."""

from headrace.format.indexes.index_entries import PlacedTensor, build_index
from headrace.format.tensors.outputs import hidden_output
from headrace.format.tensors.tensors import TensorPlace

NUM_BYTES = 1 << 40
HIDDEN = (hidden_output("float16"),)


def placed(*numbers, crc32=-1):
    """The raw tensor of the one output of a sample: start, stop, T and D."""
    return (PlacedTensor(TensorPlace(*numbers), crc32),)


def indexed(entries, **more):
    return build_index(entries, shard="a.tar", num_bytes=NUM_BYTES, **more)
