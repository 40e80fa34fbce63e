"""Tests of `headrace.streaming.shards.shard_set`."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.beside.views import PartitionCounts
from headrace.streaming.shards.shard_set import IndexCache, Locator


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=6), st.data())
def test_every_sample_of_a_view_has_its_row(counts, data):
    """Any counts: sample number j of the line is the j-th of the rows, each as often as it counts."""
    flat_counts = [(shard, row) for shard, rows in enumerate(counts) for row, n in enumerate(rows) for _ in range(n)]
    sizes = np.array([len(rows) for rows in counts], np.int32)
    part = PartitionCounts("train-0000", sizes, np.array([n for rows in counts for n in rows], np.uint8))
    totals = part.of_shards()
    assert totals.totals.tolist() == [sum(rows) for rows in counts]
    chosen = np.flatnonzero(totals.totals)
    locator = Locator.of(totals.totals[chosen])
    if flat_counts:
        wanted = data.draw(st.lists(st.integers(0, len(flat_counts) - 1), max_size=10))
        shards, numbers = locator.find(np.array(wanted, np.int64))
        rows = [np.repeat(np.arange(len(counts[s])), counts[s]) for s in chosen.tolist()]
        found = [(int(chosen[s]), int(rows[s][n])) for s, n in zip(shards.tolist(), numbers.tolist(), strict=True)]
        assert found == [flat_counts[number] for number in wanted]


def test_threads_that_need_an_index_at_once_load_it_once():
    cache, loaded, has_begun, may_end = IndexCache(), [], threading.Event(), threading.Event()

    def load(shard):
        loaded.append(shard)
        has_begun.set()
        assert may_end.wait(60)
        return f"index {shard}"

    found = []
    threads = [threading.Thread(target=lambda: found.append(cache.get(3, load))) for _ in range(8)]
    threads[0].start()
    assert has_begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    assert cache.get(4, "index {}".format) == "index 4"  # nobody waits for another one
    may_end.set()
    for thread in threads:
        thread.join()
    assert found == ["index 3"] * 8
    assert loaded == [3]
    assert not cache._loading


def test_an_index_that_could_not_be_loaded_is_loaded_again():
    cache = IndexCache()

    def fail(shard):
        raise OSError(f"index {shard} is not here yet")

    with pytest.raises(OSError, match="index 3 is not"):
        cache.get(3, fail)
    assert cache.get(3, "index {}".format) == "index 3"
