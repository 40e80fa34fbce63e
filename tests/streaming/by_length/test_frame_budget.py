"""Batches under a frame budget: what an epoch holds, what it costs to open, and how its samples are mixed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import FrameBudget, OrderSpec
from headrace.streaming.run.epochs import EpochRun
from headrace.streaming.world import World
from tests.support.frame_budget import batches_of, frames_of, one, opened, pairs_of
from tests.support.strategies import mixtures, order_specs
from tests.support.streaming.known import EarlierScan

BUDGETS = st.builds(FrameBudget, st.integers(240, 3000), st.sampled_from([1, 2, 4]), st.integers(1, 300))


@pytest.mark.medium
@given(spec=order_specs(), mixture=mixtures(), budget=BUDGETS)
@settings(max_examples=25)
def test_an_epoch_gives_each_sample_as_often_as_its_stream_says_and_stays_in_its_budget(spec, mixture, budget):
    spec = replace(spec, batching_method="random", buckets=budget)
    order, _ = opened(spec, mixture)
    batches = batches_of(order)
    given_out = Counter(pairs_of(batches))
    plain = Counter(pairs_of([EpochOrder(spec, mixture, 1).positions(0, order.num_samples)]))
    lost = order.num_samples - sum(given_out.values())
    assert lost == (order.num_samples % budget.batch_multiple if spec.last_batch == "drop" else 0)
    for stream in range(len(mixture.streams)):  # a partial pass may select other samples, but as many
        often = [sorted(Counter(count for (s, _), count in c.items() if s == stream)) for c in (given_out, plain)]
        assert lost or often[0] == often[1]
    for rows in batches:
        assert len(rows) % budget.batch_multiple == 0
        assert len(rows) * frames_of(rows[~rows.is_padding]).max() <= budget.frames_per_batch
    assert sum(rows.is_padding.any() for rows in batches) <= (spec.last_batch == "pad")
    assert [order.batch_start(index) for index in range(order.num_batches + 1)] == np.cumsum(
        [0, *(int((~rows.is_padding).sum()) for rows in batches)]
    ).tolist()


@pytest.mark.medium
@given(spec=order_specs(), mixture=mixtures(), budget=BUDGETS, data=st.data())
@settings(max_examples=8)
def test_the_rows_of_a_run_are_those_of_its_plans_on_every_world(spec, mixture, budget, data):
    spec = replace(spec, batching_method="random", buckets=budget)
    whole, _ = opened(spec, mixture)
    done = data.draw(st.integers(0, whole.num_batches))
    start = whole.batch_start(done)
    for size in (1, budget.batch_multiple):
        known = EarlierScan(mixture, frames_of)
        order = EpochOrder(spec, mixture, 1, start=start)
        run = EpochRun(order, in_buckets(order, known), World(size - 1, size))
        num_rows = run.num_rows
        assert known.num_asked == 0
        assert num_rows == sum(len(plan.rows) for plan in run.plans())


def test_nothing_is_read_to_open_to_count_or_to_find_a_position():
    spec = OrderSpec(8, shuffle=True, buckets=FrameBudget(6000))
    order, known = opened(spec, one(1000))
    start = order.batch_start(9 * order.num_batches // 10)
    resumed, other = opened(spec, one(1000), start=start)
    assert resumed.num_batches == order.num_batches - 9 * order.num_batches // 10
    assert (known.num_asked, other.num_asked) == (0, 0)
    resumed.batch(0)
    assert 0 < other.num_asked <= 2 * 64 * 100  # the shards of a block, and what the one before left


def test_streams_are_mixed_in_every_batch_and_in_proportion():
    mixture = Mixture((StreamSpec("a", np.full(50, 100)), StreamSpec("b", np.full(10, 50))))
    order, _ = opened(OrderSpec(8, shuffle=True, buckets=FrameBudget(6000, window_samples=500)), mixture)
    batches = batches_of(order)
    parts = [rows.stream_ids[~rows.is_padding].mean() for rows in batches if len(rows) >= 80]
    assert np.mean([0.01 < part < 0.3 for part in parts]) > 0.9
    thirds = np.array_split(np.concatenate([rows.stream_ids for rows in batches]), 3)
    assert [third.mean() for third in thirds] == pytest.approx([1 / 11] * 3, abs=0.03)


def test_a_stream_without_samples_and_one_of_no_length_are_no_obstacle():
    nothing = Mixture((StreamSpec("a", np.zeros(3, np.int64)),))
    spec = OrderSpec(8, shuffle=True, buckets=FrameBudget(600))
    assert opened(spec, nothing)[0].num_batches == 0
    assert opened(spec, Mixture((StreamSpec("a", np.zeros(0, np.int64)),)))[0].num_batches == 0
    silent = EarlierScan(one(1), lambda rows: np.zeros(len(rows), np.int64))
    order = in_buckets(EpochOrder(spec, one(1), 0), silent)
    assert len(pairs_of(batches_of(order))) == 100


def test_a_sample_too_long_for_the_budget_is_an_error_that_says_how_much_it_needs():
    with pytest.raises(ConfigError, match=r"no room for 4 rows .* of 60 frames.*raise it to at least 240"):
        opened(OrderSpec(8, buckets=FrameBudget(239, 4)), one(10))
    assert opened(OrderSpec(8, buckets=FrameBudget(240, 4)), one(10))[0].num_batches
