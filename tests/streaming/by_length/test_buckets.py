from dataclasses import replace

import numpy as np
import pytest

from headrace.errors import ConfigError, StateError
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.world import World
from tests.support.streaming.known import EarlierScan

NUM_SAMPLES = 100_000
SECONDS = np.clip(np.random.default_rng(5).lognormal(1.8, 0.7, NUM_SAMPLES), 1, 30)
FRAMES = (SECONDS * 16_000).astype(np.int64)
"""Speech-like lengths: 1 to 30 s, median 6 s."""

ALL = Mixture((StreamSpec("all", np.full(NUM_SAMPLES // 100, 100)),))
FEW = Mixture((StreamSpec("a", np.full(7, 30)), StreamSpec("b", np.full(5, 11), repeat=2.5)))
KINDS = [LengthBuckets(4), FrameBudget(3_000_000, batch_multiple=6, window_samples=100)]


def frames_of(rows):
    assert not rows.is_padding.any()
    return FRAMES[rows.sample_ids + 1000 * rows.stream_ids]


def batches_of(spec, mixture, start=0, world=None):
    order = in_buckets(EpochOrder(spec, mixture, 1, start=start), EarlierScan(mixture, frames_of))
    return order, [order.batch(index, *([world] if world else [])) for index in range(order.num_batches)]


def padding_share(batches, world_size):
    """Frames of padding in the batches of all devices, of all frames."""
    held = padded = 0
    for rows in batches:
        for rank in range(world_size):
            own = rows[rank::world_size]
            frames = frames_of(own[~own.is_padding])
            held += frames.sum()
            padded += frames.max(initial=0) * len(own)
    return 1 - held / padded


@pytest.mark.parametrize("world_size", [1, 8])
def test_less_than_five_percent_is_padding(world_size):
    _, batches = batches_of(OrderSpec(256, shuffle=True, buckets=LengthBuckets()), ALL)
    _, plain = batches_of(OrderSpec(256, shuffle=True), ALL)
    assert padding_share(batches, world_size) < 0.05
    assert padding_share(plain, world_size) > 0.5


@pytest.mark.medium
def test_less_than_five_percent_is_padding_under_a_frame_budget():
    _, batches = batches_of(OrderSpec(256, shuffle=True, buckets=FrameBudget(16_000 * 2000)), ALL)
    assert padding_share(batches, 8) < 0.05


@pytest.mark.parametrize("last_batch", ["pad", "drop"])
def test_buckets_hold_the_samples_of_the_order_once(last_batch):
    spec = OrderSpec(24, shuffle=True, last_batch=last_batch, buckets=LengthBuckets(4))
    order, batches = batches_of(spec, FEW)
    got = sorted((s, i) for rows in batches for s, i in zip(rows.stream_ids, rows.sample_ids, strict=True) if i >= 0)
    plain = EpochOrder(replace(spec, buckets=None), FEW, 1)
    rows = plain.positions(0, order.batch_start(order.num_batches))
    expected = sorted((s, i) for s, i in zip(rows.stream_ids, rows.sample_ids, strict=True) if i >= 0)
    assert got == expected
    padded = [index for index, rows in enumerate(batches) if rows.is_padding.any()]
    assert len(padded) <= (last_batch == "pad")


@pytest.mark.parametrize("buckets", KINDS)
@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_the_same_batches_come_out_on_every_world(buckets, world_size):
    spec = OrderSpec(24, shuffle=True, buckets=buckets)
    _, whole = batches_of(spec, FEW)
    for rank in range(world_size):
        _, own = batches_of(spec, FEW, world=World(rank, world_size))
        for rows, part in zip(whole, own, strict=True):
            assert np.array_equal(rows.sample_ids[rank::world_size], part.sample_ids)


@pytest.mark.medium
@pytest.mark.parametrize("buckets", KINDS)
def test_a_run_in_buckets_resumes_after_any_batch(buckets):
    spec = OrderSpec(24, shuffle=True, buckets=buckets)
    order, whole = batches_of(spec, FEW)
    for cut in range(order.num_batches + 1):
        resumed, rest = batches_of(spec, FEW, start=order.batch_start(cut))
        assert len(rest) == order.num_batches - cut
        assert all(np.array_equal(a.sample_ids, b.sample_ids) for a, b in zip(rest, whole[cut:], strict=True))
        assert resumed.batch_start(0) == order.batch_start(cut)


def test_buckets_are_shuffled_in_each_window():
    _, batches = batches_of(OrderSpec(256, shuffle=True, buckets=LengthBuckets(32)), ALL)
    longest = np.array([frames_of(rows).max() for rows in batches[:64]])
    assert abs(np.corrcoef(longest, np.arange(64))[0, 1]) < 0.5


def test_without_shuffling_the_batches_of_each_window_come_shortest_first():
    longest = {}
    for shuffle in (False, True):
        _, batches = batches_of(OrderSpec(256, shuffle=shuffle, buckets=LengthBuckets(32)), ALL)
        longest[shuffle] = np.array([frames_of(rows).max() for rows in batches[:64]]).reshape(2, 32)
    assert (np.diff(longest[False]) >= 0).all()
    assert (np.diff(longest[True]) < 0).any()


def test_each_length_is_looked_up_once_in_an_epoch():
    lengths = EarlierScan(FEW, frames_of)
    order = in_buckets(EpochOrder(OrderSpec(24, shuffle=True, buckets=LengthBuckets(4)), FEW, 1), lengths)
    for index in range(order.num_batches):
        order.batch(index)
    assert lengths.num_asked == order.num_samples


@pytest.mark.parametrize("buckets", [None, *KINDS])
def test_only_batches_of_the_epoch_exist(buckets):
    order, batches = batches_of(OrderSpec(24, shuffle=True, buckets=buckets), FEW)
    assert order.num_samples == sum(int((~rows.is_padding).sum()) for rows in batches)
    for index in (-1, order.num_batches):
        with pytest.raises(IndexError, match=f"batch {index} of {order.num_batches}"):
            order.batch(index)


def test_a_position_inside_a_batch_of_a_frame_budget_is_rejected():
    spec = OrderSpec(24, buckets=KINDS[1])
    with pytest.raises(StateError, match="no batch of frames_per_batch=3000000 begins there"):
        batches_of(spec, FEW, start=1)


def test_buckets_need_random_batches():
    with pytest.raises(ConfigError, match="use batching_method='random'"):
        OrderSpec(24, batching_method="per_stream", buckets=LengthBuckets())
