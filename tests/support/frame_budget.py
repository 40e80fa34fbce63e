"""Shared by test_frame_budget and the tests beside it."""

import numpy as np

from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
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
