"""Hypothesis strategies for the project's own types."""

import numpy as np
from hypothesis import strategies as st

from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import BatchingMethod, LastBatch, OrderSpec, SamplingMethod, ShuffleAlgo

GLOBAL_BATCH = 48
"""Divides by all the world sizes that the order is tried on."""


def shard_sizes(max_shards=20, max_size=12):
    """Numbers of samples per shard. Some shards are empty, but not all."""
    sizes = st.lists(st.integers(0, max_size), min_size=1, max_size=max_shards).filter(any)
    return sizes.map(lambda values: np.array(values, np.int32))


@st.composite
def mixtures(draw, max_streams=4, max_shards=20):
    """A few streams with weights of one kind."""
    sizes = draw(st.lists(shard_sizes(max_shards), min_size=1, max_size=max_streams))
    kind = draw(st.sampled_from(["none", "repeat", "choose", "proportion"]))
    weights = {
        "none": st.just({}),
        "repeat": st.fixed_dictionaries({"repeat": st.sampled_from([0.5, 1, 1.7, 3])}),
        "choose": st.fixed_dictionaries({"choose": st.integers(1, 300)}),
        "proportion": st.fixed_dictionaries({"proportion": st.sampled_from([0.2, 0.5, 1.0, 3.0])}),
    }[kind]
    streams = tuple(StreamSpec(f"stream-{i}", size, **draw(weights)) for i, size in enumerate(sizes))
    epoch_size = draw(st.none() | st.integers(1, 600)) if kind in {"none", "proportion"} else None
    return Mixture(streams, epoch_size)


@st.composite
def order_specs(draw, global_batch=GLOBAL_BATCH, methods=tuple(BatchingMethod), last=tuple(LastBatch)):
    """Settings of an order."""
    return OrderSpec(
        global_batch,
        shuffle=draw(st.booleans()),
        shuffle_algo=draw(st.sampled_from(ShuffleAlgo)),
        shuffle_seed=draw(st.integers(-3, 2**40)),
        num_canonical_nodes=draw(st.sampled_from([1, 3, 8, 16, 64])),
        shuffle_block_size=draw(st.none() | st.integers(1, 100)),
        batching_method=draw(st.sampled_from(methods)),
        sampling_method=draw(st.sampled_from(SamplingMethod)),
        sampling_granularity=draw(st.integers(1, 9)),
        last_batch=draw(st.sampled_from(last)),
    )
