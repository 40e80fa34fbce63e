"""`verify` compares every array and name of an index with the tar, row by row."""

import dataclasses

import numpy as np
import pytest

from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import parse_index
from headrace.format.tensors.outputs import hidden_output
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.streaming.corpus import clips, write_dataset

KINDS = ("audio", "latents/crepe")
ROW = 2


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """One shard with five samples, and one with their latents."""
    folder = tmp_path_factory.mktemp("verified")
    write_dataset(folder, {"train": clips(5)}, latents=True)
    return folder


@pytest.fixture
def shard(output, kind):
    """The path of a shard's index. Its bytes are restored afterwards."""
    (tar,) = (output / kind).glob("*.tar")
    path = tar.with_name(index_name(tar.name))
    whole = path.read_bytes()
    yield path
    path.write_bytes(whole)


def faults(path):
    return [fault.what for fault in verify(find_target(str(path.parent)), Depth()).faults]


def changed(array, by):
    """The array with one row changed."""
    copy = array.copy()
    copy[ROW] = by(copy[ROW])
    return copy


CHANGES = {
    "ranges": lambda row: row + np.array([0, 1]),  # the payload of each field ends one byte later
    "crc32": lambda row: row ^ 1,
    "num_frames": lambda row: row - 1,
    "sample_rate_hz": lambda row: row + 1,
    "num_channels": lambda row: row + 1,
    "tensors": lambda row: row[:, [0, 1, 3, 2]],  # D, T
    "tensor_crc32": lambda row: row ^ 1,
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(k, n) for k in KINDS for n in CHANGES if k != "audio" or not n.startswith("tensor")],  # audio has no tensors
)
def test_a_wrong_value_in_any_array_of_an_index_is_named_with_its_sample(shard, name):
    assert faults(shard) == []
    index = parse_index(shard.read_bytes(), shard.name)
    array = changed(getattr(index, name), CHANGES[name])
    shard.write_bytes(dataclasses.replace(index, **{name: array}).to_bytes())
    (fault,) = faults(shard)
    assert fault.startswith(f".idx: {name} of {index.key(ROW)} is ")
    assert f"the tar has {getattr(index, name)[ROW].tolist()}" in fault


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sha256", "outputs"])
def test_a_wrong_name_in_an_index_is_reported(shard, name):
    index = parse_index(shard.read_bytes(), shard.name)
    other = {"sha256": "0" * 64, "outputs": (hidden_output("bfloat16"),)}[name]
    shard.write_bytes(dataclasses.replace(index, **{name: other}).to_bytes())
    words = {"sha256": "says digest 000000000000", "outputs": "outputs is " if index.outputs else "need tensors"}[name]
    assert any(words in fault for fault in faults(shard))


@pytest.mark.parametrize("kind", KINDS)
def test_keys_in_another_order_are_reported(shard):
    index = parse_index(shard.read_bytes(), shard.name)
    length = len(index.key(0))
    keys = index.key_bytes.copy()
    keys[:length], keys[-length:] = index.key_bytes[-length:], index.key_bytes[:length]
    shard.write_bytes(dataclasses.replace(index, key_bytes=keys).to_bytes())
    assert any("other keys, or another order" in fault for fault in faults(shard))
