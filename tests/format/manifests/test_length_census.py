"""Tests of `headrace.format.manifests.length_census`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.manifests.length_census import cell_of, count_lengths


@given(st.lists(st.integers(0, 2**52), min_size=1, max_size=50))
def test_cells_are_in_the_order_of_lengths_and_narrow(lengths):
    lengths = np.sort(np.array(lengths))
    cells = cell_of(lengths)
    assert (np.diff(cells) >= 0).all()
    for cell in set(cells.tolist()):
        own = lengths[cells == cell]
        assert own.max() <= own.min() * 17 / 16


def test_lengths_next_to_each_other_are_in_the_same_cell_or_in_the_next():
    steps = np.diff(cell_of(np.arange(1 << 20)))
    assert set(steps.tolist()) == {0, 1}
    assert (steps[:32] == 1).all()


@pytest.mark.medium
@given(st.lists(st.lists(st.integers(0, 5000), max_size=20), max_size=12), st.integers(1, 5))
def test_a_census_counts_every_sample_of_every_shard(shards, at_once):
    sizes = np.array([len(shard) for shard in shards], np.int64)
    parts = [
        (
            sizes[at : at + at_once],
            np.array([frames for shard in shards[at : at + at_once] for frames in shard], np.int64),
        )
        for at in range(0, len(shards), at_once)
    ]
    census = count_lengths(parts)
    assert census.is_of(sizes)
    assert not census.is_of(np.append(sizes, 1))
    for shard, counts in zip(shards, census.counts, strict=True):
        cells = cell_of(np.array(shard, np.int64)) - census.first_cell
        assert np.array_equal(np.bincount(cells, minlength=len(counts)), counts)
    assert census.longest.max(initial=0) == max((max(shard) for shard in shards if shard), default=0)
