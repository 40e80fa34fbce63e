"""Shared by test_mixing and the tests beside it."""

import numpy as np

from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import OrderSpec


def check_taken(layout):
    """Check that the samples taken before each batch are those of the rows before it, in every slot of every stream."""
    starts = [layout.batch_start(batch) for batch in range(layout.num_batches + 1)]
    found, positions = layout.locate(np.arange(starts[-1]))
    for start in starts:
        taken = layout.taken(start)
        for number, of_slots in enumerate(taken):
            held = positions[:start][(found[:start] == number) & (positions[:start] >= 0)]
            assert np.bincount(held % len(of_slots), minlength=len(of_slots)).tolist() == of_slots.tolist()


def stream(name="a", num_samples=100, **weight):
    return StreamSpec(name, np.full(10, num_samples // 10), **weight)


def own_sizes(method, global_batch, **sizes):
    streams = tuple(stream(name, 500, batch_size=size) for name, size in sizes.items())
    return EpochOrder(OrderSpec(global_batch, shuffle=True, batching_method=method), Mixture(streams), 0)
