"""The order of one stream under a frame budget: what its passes take, and from which shards."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import FrameBudget, OrderSpec
from headrace.streaming.world import World
from tests.support.frame_budget import batches_of, frames_of, one, opened, pairs_of
from tests.support.streaming.known import EarlierScan


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


@pytest.mark.medium
def test_epochs_and_seeds_have_orders_of_their_own():
    spec = OrderSpec(8, shuffle=True, buckets=FrameBudget(600, 2, 100))
    orders = [opened(spec, one(9), 1), opened(spec, one(9), 2), opened(replace(spec, shuffle_seed=5), one(9), 1)]
    assert len({tuple(pairs_of(batches_of(order))) for order, _ in orders}) == 3


@pytest.mark.medium
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


@pytest.mark.medium
def test_lengths_come_in_proportion_everywhere():
    order, _ = opened(OrderSpec(8, shuffle=True, buckets=FrameBudget(1200, window_samples=1000)), one(100))
    lengths = np.concatenate([frames_of(rows[~rows.is_padding]) for rows in batches_of(order)])
    for part in np.array_split(lengths, 5):
        assert part.mean() == pytest.approx(lengths.mean(), rel=0.05)


def test_without_shuffling_shards_come_in_storage_order():
    order, _ = opened(OrderSpec(8, buckets=FrameBudget(1200, window_samples=1000)), one(100))
    first = [rows.sample_ids[~rows.is_padding].min() for rows in batches_of(order)]
    assert np.corrcoef(first, np.arange(len(first)))[0, 1] > 0.95


def test_an_index_that_differs_from_the_census_is_an_error():
    known = EarlierScan(one(3), frames_of)
    order = in_buckets(EpochOrder(OrderSpec(8, buckets=FrameBudget(600)), one(3), 0), known)
    known.frames_of = lambda rows: frames_of(rows) + 1
    with pytest.raises(FormatError, match="shard 0 of stream 0 has changed"):
        order.batch(0)
