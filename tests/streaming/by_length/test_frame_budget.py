"""Batches under a frame budget: what an epoch holds, what it costs to open, and how its samples are mixed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError, FormatError
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import FrameBudget, OrderSpec
from headrace.streaming.run.epochs import EpochRun
from headrace.streaming.world import World
from tests.support.strategies import mixtures, order_specs
from tests.support.streaming.known import EarlierScan


def frames_of(rows):
    """Lengths from 1 to 60, each often, in no order."""
    return (rows.sample_ids * 7919 + rows.stream_ids * 31) % 60 + 1


def opened(spec, mixture, epoch=1, start=0):
    known = EarlierScan(mixture, frames_of)
    return in_buckets(EpochOrder(spec, mixture, epoch, start=start), known), known


def batches_of(order, world=None):
    return [order.batch(index, *([world] if world else [])) for index in range(order.num_batches)]


def pairs_of(batches):
    return [
        pair
        for rows in batches
        for pair in zip(rows.stream_ids.tolist(), rows.sample_ids.tolist(), strict=True)
        if pair[1] >= 0
    ]


def one(num_shards, per_shard=100):
    return Mixture((StreamSpec("a", np.full(num_shards, per_shard)),))


BUDGETS = st.builds(FrameBudget, st.integers(240, 3000), st.sampled_from([1, 2, 4]), st.integers(1, 300))


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


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_partial_pass_takes_as_much_of_each_shard_as_without_a_budget(shuffle):
    mixture = Mixture((StreamSpec("a", np.array([40, 7, 0, 90, 33, 12]), repeat=1.6),))
    spec = OrderSpec(8, shuffle=shuffle, sampling_granularity=10)
    plain = EpochOrder(spec, mixture, 1)
    order, _ = opened(replace(spec, buckets=FrameBudget(600, 2, 100)), mixture)
    ends = np.cumsum(mixture.streams[0].shard_sizes)
    shards = [
        np.bincount(np.searchsorted(ends, [sample for _, sample in pairs_of(rows)], side="right"), minlength=6)
        for rows in (batches_of(order), [plain.positions(0, plain.num_rows)])
    ]
    assert shards[0].tolist() == shards[1].tolist()


@pytest.mark.parametrize(("method", "differ"), [("fixed", False), ("balanced", True)])
def test_fixed_sampling_selects_the_same_samples_in_each_epoch(method, differ):
    mixture = Mixture((StreamSpec("a", np.full(6, 50), repeat=0.4),))
    spec = OrderSpec(8, shuffle=True, sampling_method=method, buckets=FrameBudget(600, 2, 100))
    first, second = (set(pairs_of(batches_of(opened(spec, mixture, epoch)[0]))) for epoch in (1, 2))
    assert (first != second) == differ


def test_epochs_and_seeds_have_orders_of_their_own():
    spec = OrderSpec(8, shuffle=True, buckets=FrameBudget(600, 2, 100))
    orders = [opened(spec, one(9), 1), opened(spec, one(9), 2), opened(replace(spec, shuffle_seed=5), one(9), 1)]
    assert len({tuple(pairs_of(batches_of(order))) for order, _ in orders}) == 3


def test_nothing_is_read_to_open_to_count_or_to_find_a_position():
    spec = OrderSpec(8, shuffle=True, buckets=FrameBudget(6000))
    order, known = opened(spec, one(1000))
    start = order.batch_start(9 * order.num_batches // 10)
    resumed, other = opened(spec, one(1000), start=start)
    assert resumed.num_batches == order.num_batches - 9 * order.num_batches // 10
    assert (known.num_asked, other.num_asked) == (0, 0)
    resumed.batch(0)
    assert 0 < other.num_asked <= 2 * 64 * 100  # the shards of a block, and what the one before left


def test_a_batch_reads_the_shards_of_a_block_and_of_the_one_before():
    spec = OrderSpec(8, shuffle=True, shuffle_block_size=1000, buckets=FrameBudget(1000, window_samples=1000))
    order, _ = opened(spec, one(200))
    seen = [set((rows.sample_ids[~rows.is_padding] // 100).tolist()) for rows in batches_of(order)]
    ahead = max(len(set.union(*seen[at : at + 20])) for at in range(len(seen) - 20))
    assert ahead <= 40
    assert all(seen[at] & seen[at + 1] for at in range(len(seen) - 1) if len(seen[at]) > 10 < len(seen[at + 1]))


def test_a_rank_reads_the_shards_of_its_canonical_nodes():
    spec = OrderSpec(8, shuffle=True, num_canonical_nodes=8, buckets=FrameBudget(6000))
    order, _ = opened(spec, one(640, 1000))
    rows = [set((order.batch(index, World(0, 8)).sample_ids // 1000).tolist()) for index in range(100, 150)]
    alone = [set((order.batch(index).sample_ids // 1000).tolist()) for index in range(100, 150)]
    assert len(set.union(*rows)) < len(set.union(*alone)) / 3


def test_streams_are_mixed_in_every_batch_and_in_proportion():
    mixture = Mixture((StreamSpec("a", np.full(50, 100)), StreamSpec("b", np.full(10, 50))))
    order, _ = opened(OrderSpec(8, shuffle=True, buckets=FrameBudget(6000, window_samples=500)), mixture)
    batches = batches_of(order)
    parts = [rows.stream_ids[~rows.is_padding].mean() for rows in batches if len(rows) >= 80]
    assert np.mean([0.01 < part < 0.3 for part in parts]) > 0.9
    thirds = np.array_split(np.concatenate([rows.stream_ids for rows in batches]), 3)
    assert [third.mean() for third in thirds] == pytest.approx([1 / 11] * 3, abs=0.03)


def test_lengths_come_in_proportion_everywhere():
    order, _ = opened(OrderSpec(8, shuffle=True, buckets=FrameBudget(1200, window_samples=1000)), one(100))
    lengths = np.concatenate([frames_of(rows[~rows.is_padding]) for rows in batches_of(order)])
    for part in np.array_split(lengths, 5):
        assert part.mean() == pytest.approx(lengths.mean(), rel=0.05)


def test_without_shuffling_shards_come_in_storage_order():
    order, _ = opened(OrderSpec(8, buckets=FrameBudget(1200, window_samples=1000)), one(100))
    first = [rows.sample_ids[~rows.is_padding].min() for rows in batches_of(order)]
    assert np.corrcoef(first, np.arange(len(first)))[0, 1] > 0.95


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


def test_an_index_that_differs_from_the_census_is_an_error():
    known = EarlierScan(one(3), frames_of)
    order = in_buckets(EpochOrder(OrderSpec(8, buckets=FrameBudget(600)), one(3), 0), known)
    known.frames_of = lambda rows: frames_of(rows) + 1
    with pytest.raises(FormatError, match="shard 0 of stream 0 has changed"):
        order.batch(0)


# The census and the bins
