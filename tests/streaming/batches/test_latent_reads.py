"""Samples read by the copy-only path have the bytes of the file, and no number makes a read go outside its buffer."""

import contextlib
import dataclasses
import math
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import StreamingDataset
from headrace.errors import SampleError
from headrace.format.indexes import index_files
from headrace.streaming.batches import assembler as assembler_module
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.copied_batch import SampleRead, all_read
from tests.support.streaming.corpus import clips, write_dataset

CONTENT = np.random.default_rng(0).integers(0, 256, 70_000, np.uint8)
GUARD_BYTES = 4096


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory):
    """An open file of `CONTENT`."""
    path = tmp_path_factory.mktemp("reads") / "file"
    path.write_bytes(CONTENT.tobytes())
    found = os.open(path, os.O_RDONLY)
    yield found
    os.close(found)


def read(descriptor, spans):
    """Latents and JSON of samples, given as two spans of the file each, and whether all of them are whole."""
    sizes = np.array([[stop - start for start, stop in pair] for pair in spans], np.int64).reshape(-1, 2)
    begin = np.cumsum(sizes[:, 0]) - sizes[:, 0]
    latents, texts = np.zeros(sizes[:, 0].sum(), np.uint8), np.zeros(sizes[:, 1].sum(), np.uint8)
    reads = [
        SampleRead(descriptor, first[0], at, at + first[1] - first[0], second[0] - first[1], second[1] - second[0])
        for (first, second), at in zip(spans, begin.tolist(), strict=True)
    ]
    is_whole = all_read(reads, memoryview(latents), memoryview(texts))
    return latents, texts, is_whole


def content(spans):
    """The bytes of spans, end to end."""
    return np.concatenate([np.empty(0, np.uint8), *(CONTENT[start:stop] for start, stop in spans)])


edges = st.integers(0, len(CONTENT))
span = st.tuples(edges, edges).map(sorted)
near = st.tuples(edges, st.integers(0, 900), st.integers(0, 5000), st.integers(0, 90)).map(
    lambda found: [min(edge, len(CONTENT)) for edge in accumulate(found)]
).map(lambda edges: (edges[:2], edges[2:]))  # fmt: skip


@given(spans=st.lists(st.tuples(span, span) | near, max_size=100))
def test_every_sample_has_its_bytes(descriptor, spans):
    latents, texts, is_whole = read(descriptor, spans)
    assert is_whole
    assert np.array_equal(latents, content(first for first, _ in spans))
    assert np.array_equal(texts, content(second for _, second in spans))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "bad", [((69_950, 70_050), (0, 9)), ((0, 9), (69_999, 70_001)), ((69_900, 69_999), (70_000, 70_001))]
)
def test_a_sample_that_ends_behind_the_file_is_noticed(descriptor, place, bad):
    spans = [((0, 100), (200, 300))] * 3
    spans[place] = bad
    assert not read(descriptor, spans)[2]


def test_a_file_that_is_not_open_is_noticed():
    assert not read(1 << 20, [((0, 100), (200, 300))])[2]


anything = st.integers(-(1 << 70), 1 << 70) | st.integers(-6000, 6000)


@given(numbers=st.lists(st.tuples(anything, anything, anything, anything, anything), min_size=1, max_size=5))
def test_no_number_makes_a_read_go_outside_its_buffer(descriptor, numbers):
    memory = np.full(4 * GUARD_BYTES + 1000, 77, np.uint8)
    latents, texts = memory[GUARD_BYTES : GUARD_BYTES + 900], memory[3 * GUARD_BYTES : 3 * GUARD_BYTES + 100]
    reads = [SampleRead(descriptor, *found) for found in numbers]
    all_read(reads, memoryview(latents), memoryview(texts))
    latents[:], texts[:] = 77, 77
    assert (memory == 77).all()


def test_threads_do_not_disturb_each_other(descriptor):
    spans = [((start, start + 999), (start + 1200, start + 1300)) for start in range(0, 60_000, 500)]
    expected = read(descriptor, spans)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: read(descriptor, spans), range(40)):
            assert all(map(np.array_equal, found, expected))


def test_a_forked_child_reads_the_same_files(descriptor):
    assert read(descriptor, [((0, 10), (10, 20))])[2]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_reads_whole, (descriptor,))
    assert read(descriptor, [((0, 10), (10, 20))])[2]


def _reads_whole(descriptor):
    latents, texts, is_whole = read(descriptor, [((5, 500), (500, 777))])
    return is_whole and np.array_equal(latents, CONTENT[5:500]) and np.array_equal(texts, CONTENT[500:777])


@pytest.fixture(scope="module")
def latents(tmp_path_factory):
    """A data set of latents."""
    return latents_in(tmp_path_factory.mktemp("latents"), 12)


def latents_in(folder, count):
    write_dataset(folder, {"train": clips(count)}, latents=True)
    return folder / "latents/crepe"


def batches(folder, **settings):
    """All batches of an epoch."""
    dataset = StreamingDataset(remote=str(folder), batch_size=5, shuffle=True, **settings)
    assembler = dataset.epochs.assembler(Arena())
    return [assembled(assembler, plan).to_dict(dataset.output) for plan in dataset.epochs.begin().plans()]


def assembled(assembler, plan):
    """A whole batch, made in this thread."""
    batch = assembler.open(plan)
    batch.fill(0, len(batch))
    return batch.finish()


LIES = [("tensors", 0, -5), ("tensors", 1, 1 << 40), ("tensors", 2, 10_000), ("ranges", 0, -77), ("ranges", 1, 0)]


@pytest.mark.parametrize(("column", "place", "value"), LIES)
def test_an_index_with_wrong_numbers_that_nobody_checks_costs_an_error_or_wrong_values_and_no_other_memory(
    tmp_path, monkeypatch, column, place, value
):
    """The check of every index is the first defence; this is the second one."""
    folder = latents_in(tmp_path, 5)
    (path,) = folder.glob("*.idx")
    index = index_files.parse_index(path.read_bytes(), path.name)
    numbers = getattr(index, column).copy()
    numbers.reshape(5, -1)[3, place] = value
    monkeypatch.setattr(index_files, "check_index", lambda index, name: None)
    path.write_bytes(dataclasses.replace(index, **{column: numbers}).to_bytes())
    memory = Guarded()
    dataset = StreamingDataset(remote=str(folder), batch_size=5)
    with contextlib.suppress(SampleError, ValueError, MemoryError):
        assembled(dataset.epochs.assembler(memory), next(dataset.epochs.begin().plans()))
    assert memory.is_intact()


class Guarded:
    """An allocator that notices what is written outside of its arrays."""

    def __init__(self):
        self.blocks = []

    def empty(self, shape, dtype):
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes > 1 << 30:
            raise MemoryError
        block = np.full(num_bytes + 2 * GUARD_BYTES, 77, np.uint8)
        self.blocks.append(block)
        return block[GUARD_BYTES : GUARD_BYTES + num_bytes].view(dtype).reshape(shape)

    def is_intact(self):
        return all((part == 77).all() for block in self.blocks for part in (block[:GUARD_BYTES], block[-GUARD_BYTES:]))


@pytest.mark.parametrize("settings", [{}, {"crop_frames": 3}])
def test_batches_are_the_same_as_row_by_row(latents, settings, monkeypatch):
    copied = batches(latents, **settings)
    monkeypatch.setattr(assembler_module, "copy_plan", lambda *_: None)
    for one, other in zip(copied, batches(latents, **settings), strict=True):
        assert one["keys"] == other["keys"]
        assert one["metadata"] == other["metadata"]
        assert torch.equal(one["encoder_hidden"], other["encoder_hidden"])


def test_a_shard_that_shrinks_while_it_is_open_is_an_error_that_names_the_sample(tmp_path):
    folder = latents_in(tmp_path, 4)
    dataset = StreamingDataset(remote=str(folder), batch_size=4)
    assembler = dataset.epochs.assembler(Arena())
    opened = assembler.open(next(dataset.epochs.begin().plans()))
    shard = next(folder.glob("*.tar"))
    os.truncate(shard, shard.stat().st_size // 2)
    with pytest.raises(SampleError, match=r"\.tar: sample .*file ends at"):
        opened.fill(0, len(opened))
