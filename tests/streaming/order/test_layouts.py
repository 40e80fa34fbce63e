"""Layouts give each row of a global batch a stream and a position of it."""

import numpy as np
import pytest

from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture
from headrace.streaming.order.phases import current_phase, first_phase
from headrace.streaming.order.spec import BatchingMethod, OrderSpec
from tests.support.mixing import check_taken, own_sizes, stream


def test_a_stream_can_have_its_own_rows_in_every_stratified_batch():
    order = own_sizes("stratified", 24, a=20, b=4)
    assert np.bincount(order.batch(3).stream_ids).tolist() == [20, 4]


@pytest.mark.medium
def test_a_stream_can_have_global_batches_of_its_own_size():
    order = own_sizes("per_stream", 24, a=24, b=8)
    sizes = {0: 24, 1: 8}
    batches = [order.batch(index) for index in range(order.num_batches)]
    assert all(set(rows.stream_ids) == {0} or set(rows.stream_ids) == {1} for rows in batches)
    assert all(len(rows) == sizes[int(rows.stream_ids[0])] for rows in batches)
    assert sum((~rows.is_padding).sum() for rows in batches) == 1000
    starts = [order.batch_start(index) for index in range(order.num_batches + 1)]
    assert np.array_equal(np.diff(starts), [len(rows) for rows in batches])


def test_dropping_the_last_batch_leaves_whole_batches_of_each_streams_own_size():
    streams = (stream("a", 70, batch_size=20), stream("b", 30, batch_size=12))
    spec = OrderSpec(20, shuffle=True, batching_method="per_stream", last_batch="drop")
    order = EpochOrder(spec, Mixture(streams), 0)
    batches = [order.batch(index) for index in range(order.num_batches)]
    assert sorted((int(rows.stream_ids[0]), len(rows)) for rows in batches) == 3 * [(0, 20)] + 2 * [(1, 12)]
    assert not any(rows.is_padding.any() for rows in batches)
    behind = order.positions(order.num_rows - 1, order.num_rows + 3)
    assert behind.is_padding.tolist() == [False, True, True, True]


@pytest.mark.parametrize("last_batch", ["pad", "drop"])
@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        *((method, {}) for method in BatchingMethod),
        ("per_stream", {"a": 24, "b": 10}),
        ("stratified", {"a": 20, "b": 4}),
    ],
)
def test_every_position_of_each_stream_is_in_one_row_and_rows_without_one_have_position_minus_1(
    method, sizes, last_batch
):
    streams = tuple(stream(name, 130, batch_size=sizes.get(name)) for name in "ab")
    spec = OrderSpec(24, shuffle=True, num_canonical_nodes=8, batching_method=method, last_batch=last_batch)
    layout = current_phase(spec, 0, (first_phase(Mixture(streams)),)).layout
    rows = np.arange(layout.batch_start(layout.num_batches) + 24)
    found, positions = layout.locate(rows)
    assert positions.min() == -1
    for number in range(2):
        taken = positions[(found == number) & (positions >= 0)]
        assert len(set(taken.tolist())) == len(taken)
        assert taken.max() < 130
        assert len(taken) == 130 or last_batch == "drop"
    behind = positions[layout.num_rows :]
    assert len(behind) > 0
    assert (behind == -1).all() or method == "stratified"
    check_taken(layout)
