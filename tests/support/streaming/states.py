"""Orders, rows and states for tests of what a run does after it is resumed."""

import json

import numpy as np
from hypothesis import assume

from headrace.errors import ConfigError
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.state import OrderState, StreamState
from headrace.streaming.world import World


def snapshots(mixture):
    return [StreamState(stream.name, "train", 7, f"digest of {stream.name}") for stream in mixture.streams]


def through_json(state):
    return OrderState.from_json(json.loads(json.dumps(state.to_json())))


def order_of(spec, mixture, epoch=0):
    try:
        return EpochOrder(spec, mixture, epoch)
    except ConfigError as error:
        assume("no place in a global batch" not in str(error))
        raise


def frames_of(rows):
    """Lengths from 1 to 50 that the samples' numbers determine."""
    return (rows.sample_ids * 7919 + rows.stream_ids * 31) % 50 + 1


def pairs(rows):
    """Stream and sample of each row."""
    return list(zip(rows.stream_ids.tolist(), rows.sample_ids.tolist(), strict=True))


def rows_of(order, world_sizes=(1,)):
    """Rows of all batches, read on one world size after another."""
    turns = len(world_sizes)
    batches = [[] for _ in range(order.num_batches)]
    for turn, size in enumerate(world_sizes):
        for world in (
            World(rank, size) for rank in range(size)
        ):  # in order, as a rank reads: batches are made together
            for index in range(turn, order.num_batches, turns):
                batches[index].append(pairs(order.batch(index, world)))
    return [pair for parts in batches for together in zip(*parts, strict=True) for pair in together]


def two(**weights):
    sizes = {"a": np.full(12, 25), "b": np.full(4, 50), "c": np.full(9, 30)}
    return Mixture(tuple(StreamSpec(name, sizes[name], **weight) for name, weight in weights.items()))


def given_by(rows, mixture):
    """Number of times that each sample was taken, by stream name."""
    rows = np.array([row for row in rows if row[1] >= 0]).reshape(-1, 2)
    return {
        stream.name: np.bincount(rows[rows[:, 0] == number, 1], minlength=stream.num_samples)
        for number, stream in enumerate(mixture.streams)
    }
