"""Compares what `DeliveredRows` computes with the enumerated batches of an epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.asked.delivered import DeliveredRows, check_known
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order import bijection, passes
from headrace.streaming.order.epoch_order import PADDING, EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.phases import next_phase
from headrace.streaming.order.spec import FrameBudget, LengthBuckets, OrderSpec
from tests.support.epoch_order import order_of
from tests.support.strategies import mixtures, order_specs


def sizes_of(mixture):
    return {stream.name: stream.shard_sizes for stream in mixture.streams}


def enumerated(batches, num_batches, first_step=0):
    """Stream number and sample → batches and rows of its deliveries."""
    found = {}
    for index in range(num_batches):
        rows, start = batches.batch(index), batches.batch_start(index)
        for place, (stream, sample) in enumerate(zip(rows.stream_ids.tolist(), rows.sample_ids.tolist(), strict=True)):
            if sample != PADDING:
                found.setdefault((stream, sample), []).append((first_step + index, start + place))
    return found


def check(rows, mixture, expected, stride=1):
    """Compare every number that `rows` computes with enumerated deliveries; rows of every `stride`-th sample."""
    for number, stream in enumerate(mixture.streams):
        counts = np.zeros(stream.num_samples, np.int64)
        for sample in range(stream.num_samples):
            places = expected.get((number, sample), [])
            if sample % stride == 0:
                assert rows.rows_of(stream.name, np.array([sample])) == places
            counts[sample] = len(places)
        ends = np.cumsum(np.append(0, stream.shard_sizes))
        assert rows.sample_counts(stream.name).tolist() == counts.tolist()
        by_shard = np.diff(np.append(0, np.cumsum(counts))[ends])
        assert rows.shard_counts(stream.name).tolist() == by_shard.tolist()
        assert rows.num_samples(stream.name) == counts.sum()


@pytest.mark.medium
@settings(max_examples=25)
@given(order_specs(), mixtures(max_streams=3, max_shards=8), st.integers(0, 5), st.floats(0, 1))
def test_rows_of_every_sample_are_those_of_the_enumerated_batches(spec, mixture, epoch, share):
    order = order_of(spec, mixture, epoch)
    num_batches = round(share * order.num_batches)
    rows = DeliveredRows(spec, epoch, order.phases, sizes_of(mixture))
    if num_batches < order.num_batches:
        rows.before(order.batch_start(num_batches))
    check(rows, mixture, enumerated(order, num_batches), stride=9)


def test_a_phase_after_a_change_of_the_mixture_is_counted_with_the_one_before():
    spec = OrderSpec(8, shuffle=True, num_canonical_nodes=4)
    a, b = (StreamSpec(name, np.array([5, 0, 9, 7]), repeat=2) for name in "ab")
    order = EpochOrder(spec, Mixture((a, b)), 1)
    phases = (order.phases[0], next_phase(order._opened, 24, Mixture((a,))))
    after = EpochOrder(spec, Mixture((a,)), 1, phases=phases, start=24)
    rows = DeliveredRows(spec, 1, phases, sizes_of(Mixture((a,)))).before(40)
    later = {sample: [(3 + step, row) for step, row in found] for sample, found in enumerated(after, 2).items()}
    expected = {sample: found + later.get(sample, []) for sample, found in enumerated(order, 3).items()}
    check(rows, Mixture((a,)), later | expected)
    assert rows.num_samples("b") == order.stream_positions(24)["b"] > 0


@pytest.mark.parametrize("num_batches", [0, 3, 4, 6, 8])
def test_length_buckets_are_enumerated_only_in_the_unfinished_window(num_batches):
    spec = OrderSpec(6, shuffle=True, num_canonical_nodes=4, buckets=LengthBuckets(4))
    mixture = Mixture((StreamSpec("a", np.array([9, 8])), StreamSpec("b", np.array([11, 15]))))
    order = EpochOrder(spec, mixture, 2)
    batches = in_buckets(order, lambda rows: rows.sample_ids * 7 % 5)
    rows = DeliveredRows(spec, 2, order.phases, sizes_of(mixture))
    rows.before(min(rows.stop, num_batches * 6), batches)
    check(rows, mixture, enumerated(batches, num_batches))


@pytest.mark.parametrize("algo", ["block", "full"])
def test_a_sample_of_a_billion_is_found_with_few_evaluations(monkeypatch, algo):
    num_shards, counted = 1000, {"permuted": 0}

    def counting(made):
        def count(index, size, key):
            counted["permuted"] += np.broadcast(index, size, key).size
            return made(index, size, key)

        return count

    for name in ("permute", "unpermute"):
        monkeypatch.setattr(passes, name, counting(getattr(bijection, name)))
    spec = OrderSpec(256, shuffle=True, shuffle_algo=algo, shuffle_block_size=64_000)
    mixture = Mixture((StreamSpec("a", np.full(num_shards, 1_000_000)),))
    order = EpochOrder(spec, mixture, 0)
    rows = DeliveredRows(spec, 0, order.phases, sizes_of(mixture)).before(256 * 3_000_000)
    batch = order.batch(2_345_678)
    counted["permuted"] = 0
    assert rows.rows_of("a", batch.sample_ids[17:18]) == [(2_345_678, 256 * 2_345_678 + 17)]
    assert counted["permuted"] <= num_shards + 10  # the order of the shards, once
    counts = rows.shard_counts("a")
    assert counts.sum() == 256 * 3_000_000
    assert counted["permuted"] <= 2 * num_shards + 64_000 + 10
    assert rows.is_estimated is (algo == "full")


def test_what_cannot_be_computed_is_an_error_that_says_so():
    phase = EpochOrder(OrderSpec(8), Mixture((StreamSpec("a", np.array([9])),)), 0).phases
    with pytest.raises(ConfigError, match="cannot be computed with FrameBudget"):
        check_known(OrderSpec(8, buckets=FrameBudget(100)), phase)
    with pytest.raises(ConfigError, match="length buckets whose mixture has changed"):
        check_known(OrderSpec(8, buckets=LengthBuckets()), phase * 2)
