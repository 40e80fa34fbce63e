"""Tests of `headrace.streaming.shards.shard_set`."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.beside.views import PartitionCounts
from headrace.streaming.shards.shard_set import Locator


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
