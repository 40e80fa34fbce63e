"""Compares what `DeliveredRows` computes with the enumerated batches of an epoch."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.asked import delivered
from headrace.streaming.asked.delivered import DeliveredRows, check_known
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order import bijection, passes
from headrace.streaming.order.epoch_order import PADDING, EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.phases import next_phase
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, LengthBuckets, OrderSpec
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


def check(rows, mixture, expected):
    """Compare every number that `rows` computes with enumerated deliveries."""
    for number, stream in enumerate(mixture.streams):
        counts = np.zeros(stream.num_samples, np.int64)
        for sample in range(stream.num_samples):
            places = expected.get((number, sample), [])
            assert rows.rows_of(stream.name, np.array([sample])) == places
            counts[sample] = len(places)
        ends = np.cumsum(np.append(0, stream.shard_sizes))
        assert rows.sample_counts(stream.name).tolist() == counts.tolist()
        by_shard = np.diff(np.append(0, np.cumsum(counts))[ends])
        assert rows.shard_counts(stream.name).tolist() == by_shard.tolist()
        assert rows.num_samples(stream.name) == counts.sum()


@given(order_specs(), mixtures(max_streams=3, max_shards=8), st.integers(0, 5), st.floats(0, 1))
def test_rows_of_every_sample_are_those_of_the_enumerated_batches(spec, mixture, epoch, share):
    order = order_of(spec, mixture, epoch)
    num_batches = round(share * order.num_batches)
    rows = DeliveredRows(spec, epoch, order.phases, sizes_of(mixture))
    if num_batches < order.num_batches:
        rows.before(order.batch_start(num_batches))
    check(rows, mixture, enumerated(order, num_batches))
