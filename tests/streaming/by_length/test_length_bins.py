"""Bins of lengths under a frame budget."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.format.manifests.length_census import cell_of, count_lengths
from headrace.streaming.by_length.length_bins import choose_bins
from headrace.streaming.order.spec import FrameBudget


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=300), st.integers(1, 8), st.integers(0, 10**5), st.data())
def test_bins_cover_all_lengths_and_fill_a_batch_in_two_windows_but_the_last(lengths, multiple, extra, data):
    budget = FrameBudget(max(lengths) * multiple + extra, multiple, data.draw(st.integers(1, 400)))
    census = count_lengths([(np.array([len(lengths)]), np.array(lengths))])
    bins = choose_bins([census], [1.0], budget)
    cells = cell_of(np.array(lengths))
    number = np.searchsorted(bins.starts, cells, side="right") - 1
    assert number.min() == 0
    assert number.max() == len(bins) - 1
    for bin_number, num_rows in enumerate(bins.num_rows.tolist()):
        own = np.array(lengths)[number == bin_number]
        assert num_rows % multiple == 0
        assert num_rows * own.max() <= budget.frames_per_batch < (num_rows + multiple) * own.max()
        if bin_number and bin_number + 1 < len(bins):
            assert len(own) * 2 * budget.window_samples >= num_rows * len(lengths) * 0.999
