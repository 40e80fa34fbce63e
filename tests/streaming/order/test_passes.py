"""Tests of `headrace.streaming.order.passes`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streaming.order.passes import Picks, StreamOrder
from tests.support.strategies import order_specs, shard_sizes

pytestmark = pytest.mark.medium


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


@given(order_specs(), shard_sizes(), st.integers(0, 5), st.integers(1, 300), st.data())
@settings(max_examples=40)
def test_the_positions_of_a_sample_are_those_at_which_it_comes(spec, sizes, epoch, num_planned, data):
    order = StreamOrder(spec, 1, sizes, epoch, num_planned)
    stop = data.draw(st.integers(0, 600))
    end = sum(order.size_of_pass(number) for number, _ in order.passes_before(stop))
    samples = order.sample_ids(np.arange(end))
    for sample in data.draw(st.sets(st.integers(0, order.size - 1), min_size=min(8, order.size), max_size=8)):
        found = [position for _, of_pass in order.positions(np.array([sample]), stop) for position in of_pass.tolist()]
        assert found == np.flatnonzero(samples == sample).tolist()
