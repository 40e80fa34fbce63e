import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder, joined
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.order.state import StreamState, resume, save
from headrace.streaming.world import World
from tests.support.epoch_order import order_of
from tests.support.strategies import GLOBAL_BATCH, mixtures, order_specs
from tests.support.streaming.known import EarlierScan

GOLDEN = Path(__file__).parents[2] / "golden" / "order.json"


def rows_of(order):
    """All rows of the order, as (stream, sample) pairs."""
    batches = [order.batch(index) for index in range(order.num_batches)]
    return [pair for rows in batches for pair in zip(rows.stream_ids.tolist(), rows.sample_ids.tolist(), strict=True)]


def one_stream(sizes):
    return Mixture((StreamSpec("only", np.asarray(sizes, np.int32)),))


@pytest.mark.medium
@given(order_specs(last=["pad"]), mixtures(), st.integers(0, 3))
@settings(max_examples=40)
def test_an_epoch_takes_every_sample_as_often_as_its_stream_weighs(spec, mixture, epoch):
    order = order_of(spec, mixture, epoch)
    rows = np.array([row for row in rows_of(order) if row[1] >= 0], np.int64).reshape(-1, 2)
    assert len(rows) == order.num_samples
    for number, (stream, phase) in enumerate(zip(mixture.streams, order.phases[0].streams, strict=True)):
        counts = np.bincount(rows[rows[:, 0] == number, 1], minlength=stream.num_samples)
        assert len(counts) == stream.num_samples
        assert counts.sum() == phase.num_samples
        assert counts.min() == phase.num_samples // stream.num_samples
        assert counts.max() == -(-phase.num_samples // stream.num_samples)


@pytest.mark.medium
@given(order_specs(last=["drop"]), mixtures())
@settings(max_examples=40)
def test_dropping_the_last_batch_leaves_whole_batches_without_padding(spec, mixture):
    order = order_of(spec, mixture)
    rows = rows_of(order)
    assert len(rows) == order.num_batches * GLOBAL_BATCH
    assert all(sample >= 0 for _, sample in rows)


@pytest.mark.medium
@given(order_specs(), mixtures(), st.data())
@settings(max_examples=40)
def test_a_row_holds_the_same_sample_whether_asked_alone_or_in_a_range(spec, mixture, data):
    order = order_of(spec, mixture)
    total = order.num_batches * GLOBAL_BATCH
    assume(total)
    start = data.draw(st.integers(0, total - 1))
    stop = data.draw(st.integers(start + 1, total))
    row = data.draw(st.integers(start, stop - 1))
    assert order.positions(start, stop).sample_ids[row - start] == order.positions(row, row + 1).sample_ids[0]


def test_without_shuffling_one_stream_comes_in_storage_order():
    order = EpochOrder(OrderSpec(4), one_stream([3, 0, 4]), 5)
    assert [sample for _, sample in rows_of(order)] == [0, 1, 2, 3, 4, 5, 6, -1]


@pytest.mark.medium
@given(st.sampled_from(["block", "full"]), st.lists(st.integers(0, 12), min_size=10).filter(lambda s: sum(s) > 60))
def test_shuffled_epochs_differ_and_hold_the_same_samples(algo, sizes):
    spec = OrderSpec(16, shuffle=True, shuffle_algo=algo, num_canonical_nodes=4)
    first, second = (rows_of(EpochOrder(spec, one_stream(sizes), epoch)) for epoch in (0, 1))
    assert first != second
    assert sorted(first) == sorted(second)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_partial_pass_takes_its_share_of_every_shard(shuffle):
    mixture = Mixture((StreamSpec("only", np.full(50, 20, np.int32), repeat=0.3),))
    order = EpochOrder(OrderSpec(10, shuffle=shuffle), mixture, 0)
    per_shard = np.bincount(np.array(rows_of(order))[:, 1] // 20, minlength=50)
    assert set(per_shard) == {6}


@pytest.mark.parametrize(("method", "same"), [("fixed", True), ("balanced", False)])
def test_fixed_sampling_takes_the_same_samples_in_every_epoch_and_balanced_takes_others(method, same):
    mixture = Mixture((StreamSpec("only", np.full(20, 20, np.int32), repeat=0.5),))
    spec = OrderSpec(10, shuffle=True, sampling_method=method)
    first, second = (rows_of(EpochOrder(spec, mixture, epoch)) for epoch in (0, 1))
    assert first != second
    assert (sorted(first) == sorted(second)) is same


@pytest.mark.parametrize("world_size", [1, 4, 16, 64])
def test_a_rank_reads_its_part_of_a_block_at_a_time(world_size):
    """A block is 64 shards, so a rank has about 64 / W open at a time, and as many again where its nodes' parts end."""
    order = EpochOrder(OrderSpec(256, shuffle=True), one_stream(np.full(1024, 100)), 0)
    shards_per_block = 6400 * 2 // 256
    rows = [order.batch(index, World(0, world_size)).sample_ids for index in range(shards_per_block)]
    assert len(np.unique(np.concatenate(rows[: len(rows) // 2]) // 100)) <= 2 * 64 / world_size + 1


def test_a_global_batch_is_spread_over_the_whole_block():
    order = EpochOrder(OrderSpec(256, shuffle=True), one_stream(np.full(1024, 100)), 0)
    distinct = [len(np.unique(order.batch(index).sample_ids // 100)) for index in range(25)]
    assert np.mean(distinct) > 55  # of 64 shards in a block


@pytest.mark.parametrize(("num_shards", "per_shard"), [(8, 18), (20, 50), (1, 200)])
def test_a_small_batch_of_few_shards_draws_from_as_many_as_it_can(num_shards, per_shard):
    """64 nodes in fewer shards would put neighbours in storage side by side in every epoch."""
    spec, mixture = OrderSpec(8, shuffle=True), one_stream(np.full(num_shards, per_shard))
    epochs = [EpochOrder(spec, mixture, epoch) for epoch in range(6)]
    batches = np.concatenate([o.positions(0, o.num_rows).sample_ids.reshape(-1, 8) for o in epochs])
    distinct = [len(np.unique(batch // per_shard)) for batch in batches]
    assert np.mean(distinct) > 0.95 * min(8, num_shards)
    neighbours = (np.abs(batches[:, :, None] - batches[:, None, :]) == 1).sum(axis=(1, 2)) / 2
    by_chance = 28 * 2 / (num_shards * per_shard)
    assert neighbours.mean() < 2 * by_chance


def test_neighbours_in_storage_come_far_apart():
    order = EpochOrder(OrderSpec(256, shuffle=True), one_stream(np.full(256, 100)), 0)
    position = np.argsort(order.positions(0, 25_600).sample_ids)
    distance = np.abs(np.diff(position.reshape(256, 100), axis=1))
    assert np.median(distance) > 1000
    assert (distance < 64).mean() < 0.05


def test_batches_are_computed_together_ever_more_while_all_are_used(monkeypatch):
    order, computed = EpochOrder(OrderSpec(64, shuffle=True), one_stream([1000] * 64), 0), []
    whole = order.positions(0, order.num_rows)
    locate = EpochOrder._rows

    def recorded(self, row):
        computed.append((int(row[0]), len(row)))
        return locate(self, row)

    monkeypatch.setattr(EpochOrder, "_rows", recorded)
    for index in [*range(40), 250, 239, 16, 15]:
        rows = order.batch(index)
        assert np.array_equal(rows.sample_ids, whole.sample_ids[64 * index : 64 * index + 64])
    assert computed == [(0, 1024), (1024, 2048), (15360, 1024), (14336, 1024), (1024, 1024), (0, 1024)]
    computed.clear()
    for index in range(300):
        order.batch(index)
    assert [num_rows for _, num_rows in computed] == [2048, 4096, 4096, 4096, 4096]
    computed.clear()
    for index, world in [(303, World(1, 2)), *((index, World(0, 2)) for index in (304, 320, 351, 416))]:
        rows = order.batch(index, world)
        assert np.array_equal(rows.sample_ids, whole.sample_ids[64 * index + world.rank : 64 * index + 64 : 2])
    assert computed == [(64 * 288 + 1, 512), (64 * 304, 1024), (64 * 336, 2048), (64 * 416, 512)]


def test_rows_are_joined_end_to_end_and_those_of_nothing_are_none():
    order = EpochOrder(OrderSpec(6), Mixture((StreamSpec("a", np.array([5])), StreamSpec("b", np.array([4])))), 0)
    parts = [order.positions(0, 4), order.positions(4, 9)]
    whole = order.positions(0, 9)
    assert np.array_equal(joined(parts).sample_ids, whole.sample_ids)
    assert np.array_equal(joined(parts).stream_ids, whole.stream_ids)
    nothing = joined([])
    assert (len(nothing), nothing.stream_ids.dtype, nothing.sample_ids.dtype) == (0, np.int32, np.int64)


def test_a_world_that_does_not_fit_is_rejected_by_a_message_that_names_those_that_do():
    order = EpochOrder(OrderSpec(48), one_stream([100]), 0)
    with pytest.raises(ConfigError, match=r"48 samples.*5 ranks: use a global batch of 45 or 50, or .* 4 or 6"):
        order.batch(0, World(2, 5))


def test_a_stream_of_a_million_shards_and_an_epoch_of_a_billion_samples_are_opened_at_any_place():
    order = EpochOrder(OrderSpec(256, shuffle=True), one_stream(np.full(1_000_000, 1000)), 3)
    samples = order.positions(900_000_000, 900_000_256).sample_ids
    assert len(np.unique(samples)) == 256
    assert samples.max() < 10**9


def golden_orders():
    """Orders that must never change: a saved state would resume somewhere else."""
    two = Mixture(
        (StreamSpec("a", np.array([5, 0, 9, 7]), repeat=1.5), StreamSpec("b", np.array([11, 4]), repeat=1)),
    )
    specs = {
        f"{method}-{algo}": OrderSpec(8, shuffle=True, shuffle_algo=algo, num_canonical_nodes=4, batching_method=method)
        for method in ("random", "stratified", "per_stream", "device_per_stream")
        for algo in ("block", "full")
    }
    large = EpochOrder(OrderSpec(16, shuffle=True), one_stream(np.full(100_000, 1000)), 1)
    orders = {name: EpochOrder(spec, two, 1) for name, spec in specs.items()} | further_golden_orders(two)
    listed = {name: [list(row) for row in rows_of(order)] for name, order in orders.items()}
    return listed | {"large": large.positions(77_777_777, 77_777_793).sample_ids.tolist()}


def further_golden_orders(two):
    """Length buckets, batch sizes of streams' own, picked samples, and a mixture that changed on the way."""

    def frames(rows):
        return (rows.sample_ids * 7 + rows.stream_ids) % 13 + 1

    base = OrderSpec(8, shuffle=True, num_canonical_nodes=4)
    own = Mixture(tuple(replace(stream, batch_size=size) for stream, size in zip(two.streams, (8, 4), strict=True)))
    fewer = Mixture((StreamSpec("a", two.streams[0].shard_sizes, repeat=0.6),))
    start = EpochOrder(base, two, 1)
    now = [StreamState(stream.name, None, 1, stream.name) for stream in two.streams]
    turned = Mixture(tuple(replace(stream, repeat=None, choose=30) for stream in two.streams))
    return {
        "buckets": in_buckets(EpochOrder(replace(base, buckets=LengthBuckets(2)), two, 1), EarlierScan(two, frames)),
        "budget": in_buckets(
            EpochOrder(replace(base, buckets=FrameBudget(60, 4, 20)), two, 1), EarlierScan(two, frames)
        ),
        "own batch sizes": EpochOrder(replace(base, batching_method="per_stream"), own, 1),
        "own portions": EpochOrder(replace(base, global_batch_size=12, batching_method="stratified"), own, 1),
        "fixed picks": EpochOrder(replace(base, sampling_method="fixed", sampling_granularity=3), fewer, 1),
        "not shuffled": EpochOrder(replace(base, shuffle=False), two, 1),
        "changed mixture": resume(save(start, 16, now), base, turned, now, change_streams=True),
    }


@pytest.mark.medium
def test_the_order_is_the_one_of_all_versions():
    """`HEADRACE_UPDATE_GOLDEN=1 pytest tests/streaming/order/test_epoch_order.py -k versions` writes the file again."""
    if os.environ.get("HEADRACE_UPDATE_GOLDEN"):
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in golden_orders().items())
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    assert golden_orders() == json.loads(GOLDEN.read_text())
