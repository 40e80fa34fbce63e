"""Tests of `headrace.streaming.order.passes`."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.order.passes import Picks


@given(st.integers(1, 400), st.data())
def test_picks_are_increasing_distinct_and_counted_in_closed_form(size, data):
    num_picked = data.draw(st.integers(1, size))
    granularity = data.draw(st.integers(1, num_picked))
    picks = Picks(size, num_picked, granularity, data.draw(st.integers(0, size - num_picked)))
    places = picks.place(np.arange(num_picked))
    assert (np.diff(places) > 0).all()
    assert places[0] >= 0
    assert places[-1] < size
    assert np.array_equal(picks.num_before(np.arange(size + 1)), np.searchsorted(places, np.arange(size + 1)))
