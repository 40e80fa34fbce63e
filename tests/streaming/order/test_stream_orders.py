"""Mixtures of many streams: evaluated together, they have the samples that each has alone."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streaming.order import stream_orders
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.interleave import Interleave
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.passes import StreamOrder
from headrace.streaming.order.spec import OrderSpec
from headrace.streaming.order.stream_orders import StreamOrders
from headrace.streaming.world import World
from tests.support.strategies import order_specs

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any)


@pytest.mark.medium
@given(order_specs(), st.lists(st.tuples(SIZES, st.integers(0, 99)), min_size=12, max_size=20), st.data())
@settings(max_examples=20)
def test_streams_evaluated_together_have_the_samples_of_each_alone(spec, streams, data):
    orders = [StreamOrder(spec, number, np.array(sizes), 1, planned) for number, (sizes, planned) in enumerate(streams)]
    rows = st.lists(st.tuples(st.integers(0, len(orders) - 1), st.integers(0, 300)), min_size=1, max_size=200)
    together = StreamOrders(orders)
    for _ in range(3):  # later rows find some passes open, and more than are kept
        stream, position = np.array(data.draw(rows)).T
        found = together.sample_ids(stream, position)
        for number, order in enumerate(orders):
            own = stream == number
            assert np.array_equal(found[own], order.sample_ids(position[own]))


@pytest.mark.parametrize("method", ["random", "stratified", "per_stream", "device_per_stream"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_mixture_has_the_same_batches_however_its_streams_are_evaluated(method, shuffle, monkeypatch):
    random = np.random.default_rng(4)
    mixture = Mixture(
        tuple(StreamSpec(f"s{i}", random.integers(0, 20, 9), proportion=1 + i % 3) for i in range(20)), 1500
    )
    spec = OrderSpec(96, shuffle=shuffle, batching_method=method, num_canonical_nodes=8)

    def batches():
        order = EpochOrder(spec, mixture, 2)
        return [order.batch(index, World(1, 4)).sample_ids.tolist() for index in range(order.num_batches)]

    expected = batches()
    monkeypatch.setattr(stream_orders, "_FEW", 1000)
    assert batches() == expected


@pytest.mark.medium
@given(st.lists(st.integers(0, 60), min_size=2, max_size=30), st.integers(1, 6), st.data())
@settings(max_examples=20)
def test_units_do_not_depend_on_those_that_were_asked_for_before(counts, num_slots, data):
    counts = np.array(counts)[:, None] + np.arange(num_slots)
    kept = Interleave(counts, 7)
    units = kept.slot_units
    rows = st.lists(st.tuples(st.integers(0, num_slots - 1), st.floats(0, 0.999)), max_size=20)
    for _ in range(3):
        asked = np.array([(slot, int(share * units[slot])) for slot, share in data.draw(rows) if units[slot]], np.int64)
        slot, unit = asked.reshape(-1, 2).T
        found = kept.locate(slot, unit)
        fresh = [Interleave(counts, 7).locate(slot[i : i + 1], unit[i : i + 1]) for i in range(len(slot))]
        assert [found[0].tolist(), found[1].tolist()] == [[int(f[j][0]) for f in fresh] for j in (0, 1)]


@pytest.mark.medium
@pytest.mark.parametrize("method", ["random", "stratified"])
def test_a_batch_of_many_streams_takes_milliseconds(method):
    mixture = Mixture(tuple(StreamSpec(f"s{i}", np.full(10, 100), proportion=1.0 + i % 7 / 100) for i in range(500)))
    order = EpochOrder(OrderSpec(1024, shuffle=True, batching_method=method), mixture, 0)
    order.batch(0)
    began = time.process_time()
    for index in range(1, 9):
        order.batch(index)
    assert (time.process_time() - began) / 8 < 0.02  # 1 ms on a quiet machine; 50 ms stream by stream
