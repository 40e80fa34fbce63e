"""Many reads in one call give the bytes that `pread` gives, or say that they did not."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import StreamingDataset
from headrace.errors import SampleError
from headrace.streaming.batches import bulk
from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.bulk import READ, read_together
from tests.streaming.corpus import clips, write_dataset

CONTENT = np.random.default_rng(0).integers(0, 256, 70_000, np.uint8)


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory):
    """An open file of `CONTENT`."""
    path = tmp_path_factory.mktemp("bulk") / "file"
    path.write_bytes(CONTENT.tobytes())
    found = os.open(path, os.O_RDONLY)
    yield found
    os.close(found)


def into(out, descriptor, spans):
    """Reads of spans, one after the other in `out`."""
    sizes = [stop - start for start, stop in spans]
    places = out.ctypes.data + np.cumsum([0, *sizes])
    reads = np.zeros(len(spans), READ)
    reads["descriptor"], reads["address"], reads["num_bytes"] = descriptor, places[:-1], sizes
    reads["offset"] = [start for start, _ in spans]
    return reads


def read(descriptor, spans):
    """What comes of the spans, and whether all of them are whole."""
    out = np.zeros(sum(stop - start for start, stop in spans) + 1, np.uint8)
    return out[:-1], read_together(into(out, descriptor, spans))


def contexts_are_given():
    """Whether this kernel, or the sandbox around it, lets a process read in this way."""
    return bulk._taken() is not None


needs_contexts = pytest.mark.skipif(not contexts_are_given(), reason="this system has no io_submit")
edges = st.integers(0, len(CONTENT))
SPANS = st.lists(st.tuples(edges, edges).map(sorted), max_size=300)


@needs_contexts
@given(spans=SPANS)
def test_every_read_gives_its_bytes(descriptor, spans):
    out, is_whole = read(descriptor, spans)
    expected = [CONTENT[start:stop] for start, stop in spans]
    assert is_whole
    assert np.array_equal(out, np.concatenate([np.empty(0, np.uint8), *expected]))


@needs_contexts
def test_a_short_read_and_a_bad_file_are_said_and_the_others_come(descriptor):
    spans = [(0, 100), (len(CONTENT) - 50, len(CONTENT) + 50), (200, 300)]
    out, is_whole = read(descriptor, spans)
    assert not is_whole
    assert np.array_equal(out[200:], CONTENT[200:300])
    reads = into(np.zeros(300, np.uint8), descriptor, [(0, 100), (0, 100), (0, 100)])
    for place in range(len(reads)):
        bad = reads.copy()
        bad["descriptor"][place] = 1 << 20
        assert not read_together(bad)


@needs_contexts
def test_threads_do_not_disturb_each_other(descriptor):
    spans = [(start, start + 999) for start in range(0, 60_000, 500)]
    expected, _ = read(descriptor, spans)
    with ThreadPoolExecutor(8) as pool:
        for out, is_whole in pool.map(lambda _: read(descriptor, spans), range(40)):
            assert is_whole
            assert np.array_equal(out, expected)


@needs_contexts
def test_a_forked_child_reads_with_contexts_of_its_own(descriptor):
    assert read(descriptor, [(0, 10)])[1]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_reads_whole, (descriptor,))
    assert read(descriptor, [(0, 10)])[1]


def _reads_whole(descriptor):
    out, is_whole = read(descriptor, [(5, 500)])
    return is_whole and np.array_equal(out, CONTENT[5:500])


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
    assembler = dataset.assembler(Arena())
    return [assembler.assemble(plan).to_dict(dataset.output) for plan in dataset.begin().plans()]


@pytest.mark.parametrize("settings", [{}, {"crop_frames": 3}])
def test_batches_are_the_same_where_there_are_no_contexts(latents, settings, monkeypatch):
    together = batches(latents, **settings)
    monkeypatch.setattr(bulk, "_taken", lambda: None)
    for one, other in zip(together, batches(latents, **settings), strict=True):
        assert one["keys"] == other["keys"]
        assert one["metadata"] == other["metadata"]
        assert torch.equal(one["encoder_hidden"], other["encoder_hidden"])


def test_a_shard_that_shrinks_while_it_is_open_is_an_error_that_names_the_sample(tmp_path):
    folder = latents_in(tmp_path, 4)
    dataset = StreamingDataset(remote=str(folder), batch_size=4)
    assembler = dataset.assembler(Arena())
    prepared = assembler.prepare(next(dataset.begin().plans()))
    shard = next(folder.glob("*.tar"))
    os.truncate(shard, shard.stat().st_size // 2)
    with pytest.raises(SampleError, match=r"\.tar: sample .*the file ends at"):
        prepared.fill(0, len(prepared))
