"""Tests of `headrace.streaming.world`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streaming.world import World
from tests.support.epoch_order import order_of
from tests.support.strategies import mixtures, order_specs

WORLD_SIZES = [2, 3, 4, 6, 8, 12, 16]


@pytest.mark.medium
@given(order_specs(), mixtures(), st.sampled_from(WORLD_SIZES))
@settings(max_examples=40)
def test_global_batches_survive_a_change_of_world_size(spec, mixture, size):
    order = order_of(spec, mixture)
    indexes = range(min(order.num_batches, 2))
    whole = [order.batch(index).sample_ids for index in indexes]
    together = [np.full(len(batch), -2) for batch in whole]
    for rank in range(size):
        for index in indexes:
            together[index][rank::size] = order.batch(index, World(rank, size)).sample_ids
    assert all(np.array_equal(*pair) for pair in zip(together, whole, strict=True))
