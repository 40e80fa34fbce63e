"""When shards are used next, compared with every sample of small orders."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streaming.order.passes import StreamOrder
from headrace.streaming.order.shard_uses import ShardUses
from headrace.streaming.order.spec import OrderSpec

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=30).map(lambda sizes: np.array(sizes, np.int32))
SPECS = st.builds(
    OrderSpec,
    st.just(8),
    shuffle=st.booleans(),
    shuffle_algo=st.sampled_from(["block", "block", "full"]),
    shuffle_seed=st.integers(0, 99),
    num_canonical_nodes=st.sampled_from([1, 2, 4, 6, 8]),
    shuffle_block_size=st.none() | st.integers(1, 80),
)


def taken_shards(stream, count):
    """The shard of the sample at each position."""
    samples = stream.sample_ids(np.arange(count))
    return np.searchsorted(stream.storage_starts, samples, side="right") - 1


@pytest.mark.medium
@settings(max_examples=60)
@given(SPECS, SIZES, st.floats(0.1, 2.6), st.data())
def test_no_sample_is_taken_before_its_shard_is_expected(spec, sizes, repeat, data):
    total = int(sizes.sum())
    planned = int(total * repeat)
    stream = StreamOrder(spec, 0, sizes, 3, planned)
    position = data.draw(st.integers(0, max(0, planned - 1)))
    modulus = data.draw(st.sampled_from([1, 2, 3, 4, 8]))
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=modulus, max_size=modulus)))
    found = ShardUses(stream).distances(np.arange(len(sizes)), position, wanted)
    shards = taken_shards(stream, planned)
    number, within = stream.split(np.array([position])) if total else (np.zeros(1, int), np.zeros(1, int))
    seen = position - int(within[0]) + sum(stream.size_of_pass(int(number[0]) + more) for more in range(2))
    for shard in range(len(sizes)):
        uses = np.flatnonzero(shards[position:] == shard) + position
        uses = uses[wanted[uses % modulus]] if len(uses) else uses
        uses = uses[uses < seen]
        if len(uses):
            assert found[shard] <= uses[0] - position


@pytest.mark.parametrize("num_nodes", [1, 8])
def test_expectations_are_at_most_a_block_early(num_nodes):
    """160 shards in 10 blocks: a shard is expected when its block begins, and then not before the next pass."""
    spec = OrderSpec(8, shuffle=True, num_canonical_nodes=num_nodes, shuffle_block_size=160)
    sizes = np.full(160, 10, np.int32)
    stream = StreamOrder(spec, 0, sizes, 0, 3200)
    uses, shards = ShardUses(stream), taken_shards(stream, 3200)
    for position in (0, 160, 500, 1590, 1600):
        found = uses.distances(np.arange(160), position, np.ones(1, np.bool_))
        after = shards[position:]
        real = np.array([np.flatnonzero(after == shard)[0] for shard in range(160)])
        assert (found <= real).all()
        is_later = found > 0  # a shard of the block under way may have had its last sample
        assert is_later.sum() >= 144 - 16
        assert (real - found)[is_later].max() < 160


def test_each_of_two_ranks_expects_the_shards_of_its_own_nodes():
    spec = OrderSpec(8, shuffle=True, num_canonical_nodes=8, shuffle_block_size=160)
    stream = StreamOrder(spec, 0, np.full(160, 10, np.int32), 0, 1600)
    shards = taken_shards(stream, 1600)
    for rank in range(2):
        wanted = np.arange(2) == rank
        expected = np.isfinite(ShardUses(stream).distances(np.arange(160), 0, wanted))
        assert set(np.flatnonzero(expected)) == set(shards[rank::2])
        assert expected.sum() == 80


def test_a_million_shards_keep_eight_bytes_each_and_a_question_costs_only_its_shards():
    spec = OrderSpec(8, shuffle=True)
    stream = StreamOrder(spec, 0, np.full(1_000_000, 50, np.int32), 0, 50_000_000)
    uses = ShardUses(stream)
    found = uses.distances(np.arange(0, 1_000_000, 100_000), 0, np.ones(1, np.bool_))
    assert len(np.unique(found)) > 5
    (kept,) = uses._passes._kept.values()
    assert kept._starts.nbytes == 8_000_000
