"""Which numbers of an index fit together, to the last byte, and what is unknown by default."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.format import tables
from headrace.format.indexes.index_entries import SampleEntry, build_index
from headrace.format.indexes.index_flaws import flaw_of
from tests.support.index import HIDDEN, placed

NUM_BYTES = 1000
SAMPLE = SampleEntry("a", {"json": (0, 5), "pth": (8, 24)}, 2, 8000, 1, placed(12, 20, 2, 2), {"json": 7, "pth": 9})
INDEX = build_index(
    [SAMPLE, replace(SAMPLE, key="b"), SampleEntry("c", {"json": (30, 40)})],
    shard="a.tar",
    num_bytes=NUM_BYTES,
    outputs=HIDDEN,
)


def with_numbers(*changes):
    """The index with numbers replaced, each named by its array and its place."""
    arrays = {}
    for name, place, value in changes:
        arrays.setdefault(name, getattr(INDEX, name).copy())[place] = value
    return replace(INDEX, **arrays)


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("crc32", (0, 0), 0)],
        [("crc32", (0, 0), (1 << 32) - 1)],
        [("crc32", (0, 0), -1)],
        [("ranges", (0, 0), (0, 0))],
        [("ranges", (0, 0), (NUM_BYTES - 1, NUM_BYTES))],
        [("num_frames", 0, -1), ("sample_rate_hz", 0, 0), ("num_channels", 0, 0)],
        [("key_offsets", slice(None), (0, 0, 2, 3))],  # an empty key
        [("tensors", (0, 0), (8, 24, 4, 2))],  # the complete field
        [("tensors", (0, 0), (0, 4, 1, 2))],  # at the tar's beginning
        [("tensors", (0, 0), (12, 12, 0, 2))],
        [("tensors", (0, 0), (12, 12, 2, 0))],
    ],
)
def test_numbers_up_to_their_limits_are_accepted(changes):
    assert flaw_of(with_numbers(*changes)) is None


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ([("key_offsets", 0, 1)], "key_offsets must rise from 0 to the 3 bytes of all keys"),
        ([("key_offsets", 3, 2)], "key_offsets must rise from 0 to the 3 bytes of all keys"),
        ([("key_offsets", 2, 0)], "key_offsets must rise from 0 to the 3 bytes of all keys"),
        ([("sample_rate_hz", 0, 0), ("sample_rate_hz", 1, -1)], "sample 'b' has sample_rate_hz -1"),
        ([("num_channels", 0, 0), ("num_channels", 2, -1)], "sample 'c' has num_channels -1"),
        ([("num_frames", 0, -1), ("num_frames", 1, -2)], "sample 'b' has num_frames -2"),
        ([("ranges", (0, 0), (5, -1))], "field json of sample 'a' is at bytes 5..-1 of a tar of 1000 bytes"),
        (
            [("ranges", (1, 0), (9, 1001)), ("ranges", (2, 0), (9, 1002))],
            "field json of sample 'b' is at bytes 9..1001 of a tar of 1000 bytes",
        ),
        ([("crc32", (2, 1), 5)], "field pth of sample 'c' has the CRC-32 5"),  # a field that it lacks
        ([("crc32", (0, 1), -2), ("crc32", (1, 1), -3)], "field pth of sample 'a' has the CRC-32 -2"),
        ([("tensors", (1, 0), (12, 12, -1, 0))], "the tensor encoder_hidden of sample 'b', (-1, 0) of float16"),
        ([("tensors", (1, 0), (12, 12, 0, -1))], "the tensor encoder_hidden of sample 'b', (0, -1) of float16"),
        ([("tensors", (2, 0), (-1, -1, 0, 2))], "the tensor encoder_hidden of sample 'c', (0, 2) of float16"),
        ([("tensors", (0, 0), (4, 12, 2, 2))], "the tensor encoder_hidden of sample 'a', (2, 2) of float16"),
    ],
)
def test_the_first_number_beyond_its_limit_is_named(changes, flaw):
    assert (flaw_of(with_numbers(*changes)) or "").startswith(flaw)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("key_offsets", np.zeros(3, np.int64)),
        ("key_offsets", np.zeros(5, np.int64)),
        ("ranges", np.zeros((3, 2, 3), np.int64)),
        ("tensors", np.full((3, 5), -1, np.int64)),
        ("num_channels", np.zeros(3, np.int32)),
        ("num_frames", np.zeros(3, np.int32)),
    ],
)
def test_an_array_of_another_shape_or_type_is_named(name, wrong):
    assert f" need {name} as " in flaw_of(replace(INDEX, **{name: wrong}))


def test_what_is_not_given_is_unknown():
    entry = SampleEntry("a", {"json": (0, 5)})
    assert (entry.num_frames, entry.sample_rate_hz, entry.num_channels) == (-1, 0, 0)
    assert INDEX.latent_rate_hz == 0


def test_an_index_file_says_its_version():
    _, metadata = tables.unpack(INDEX.to_bytes(), "a.idx")
    assert metadata["headrace_index"] == "1"
