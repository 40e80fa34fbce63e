"""`tar_faults` finds every difference between a tar and its index."""

import dataclasses
import io
from functools import partial

import numpy as np
import pytest

from headrace.format.indexes.index import ABSENT
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.indexes.tar_faults import tar_faults
from headrace.format.shards.writer import ShardPlace, ShardWriter
from headrace.format.tars.tar import crc32_of
from headrace.stores.storage import open_storage

FIRST_PAYLOAD = 512


@pytest.fixture(scope="module")
def written():
    """The bytes and the index of a shard with three samples, the last of which has no FLAC."""
    storage = open_storage("memory://")
    with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        for i in range(3):
            parts = {"flac": (b"f" * (900 + i), 900 + i), "json": (b"{}", 2)}
            writer.add(f"k{i}", {name: parts[name] for name in parts if name == "json" or i < 2}, SampleEntry("", {}))
        index = writer.publish("", {})
    return storage.read(index.shard), index


def changed(index, name, row, value):
    array = getattr(index, name).copy()
    array[row] = value
    return dataclasses.replace(index, **{name: array})


def faults(blob, index, *, with_checksums=True):
    file = io.BytesIO(blob)
    return tar_faults(file, index, partial(crc32_of, file) if with_checksums else None)


def test_a_tar_and_its_index_have_no_differences(written):
    assert faults(*written) == []


def test_another_place_of_a_field_is_named_with_both_places(written):
    blob, index = written
    moved = changed(index, "ranges", (1, 0), index.ranges[1, 0] + 512)
    (fault,) = faults(blob, moved)
    assert fault.startswith("k1.flac is at (")
    assert str(tuple(moved.ranges[1, 0].tolist())) in fault


def test_a_field_that_only_the_index_has_is_named(written):
    blob, index = written
    (fault,) = faults(blob, changed(index, "ranges", (2, 0), (512, 520)))
    assert fault == "k2.flac is at None, the index says (512, 520)"


def test_a_field_that_only_the_tar_has_is_named(written):
    blob, index = written
    (fault,) = faults(blob, changed(index, "ranges", (0, 1), (ABSENT, ABSENT)))
    assert fault.startswith("k0.json is at (")
    assert fault.endswith("the index says None")


def test_a_changed_byte_of_a_payload_is_found_by_its_checksum_alone(written):
    blob, index = written
    damaged = bytearray(blob)
    damaged[FIRST_PAYLOAD + 5] ^= 1
    (fault,) = faults(bytes(damaged), index)
    assert fault.startswith("k0.flac has the CRC-32 ")
    assert faults(bytes(damaged), index, with_checksums=False) == []


def test_a_payload_without_a_checksum_is_not_compared(written):
    blob, index = written
    damaged = bytearray(blob)
    damaged[FIRST_PAYLOAD + 5] ^= 1
    assert faults(bytes(damaged), dataclasses.replace(index, crc32=np.full_like(index.crc32, ABSENT))) == []


def test_another_size_other_keys_and_no_tar_at_all_are_found(written):
    blob, index = written
    assert faults(blob + bytes(512), index) == [f"the tar has {len(blob) + 512} bytes, the index says {len(blob)}"]
    assert faults(blob.replace(b"k1.", b"k9."), index) != []
    assert "not a readable tar" in faults(b"x" * len(blob), index)[0]
