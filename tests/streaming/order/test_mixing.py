import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import (
    MAX_EPOCH_SAMPLES,
    MAX_SAMPLES,
    Mixture,
    StreamSpec,
    parse_epoch_size,
    share_out,
    stream_counts,
)
from headrace.streaming.order.spec import BatchingMethod, OrderSpec
from headrace.streaming.world import World
from tests.support.mixing import own_sizes, stream
from tests.support.strategies import mixtures


def mixed(method="random", global_batch=32, nodes=8, **weights):
    streams = tuple(stream(name, 2000, proportion=weight) for name, weight in weights.items())
    spec = OrderSpec(global_batch, shuffle=True, num_canonical_nodes=nodes, batching_method=method)
    return EpochOrder(spec, Mixture(streams, 4000), 0)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("100k", 100_000),
        ("64M", 64_000_000),
        ("77b", 77 * 10**9),
        ("1.5m", 1_500_000),
        ("2t", 2 * 10**12),
        ("7", 7),
        ("1", 1),
        (9, 9),
        (None, None),
        (0, None),
        ("", None),
    ],
)
def test_epoch_sizes_are_read_as_people_write_them(text, number):
    assert parse_epoch_size(text) == number


@pytest.mark.parametrize("method", ["random", "stratified", "per_stream", "device_per_stream"])
def test_an_epoch_of_77_billion_samples_is_opened_at_any_place(method):
    streams = tuple(stream(name, 10**9, proportion=weight) for name, weight in (("a", 3), ("b", 1)))
    spec = OrderSpec(64, shuffle=True, batching_method=method)
    order = EpochOrder(spec, Mixture(streams, "77b"), 0)
    assert order.num_samples == 77 * 10**9
    index = 9 * order.num_batches // 10
    row = order.batch_start(index)
    given = order.stream_positions(row)
    later = order.stream_positions(order.batch_start(index + 16))
    assert sum(given.values()) == row
    assert abs(given["a"] - 3 * given["b"]) < 64 * 64
    counts = np.bincount(order.positions(row, order.batch_start(index + 16)).stream_ids, minlength=2)
    assert counts.tolist() == [later[name] - given[name] for name in "ab"]


def test_slots_too_long_for_64_bits_are_an_error_with_a_remedy():
    streams = (stream("a", 10**9), stream("b", 10**9))
    with pytest.raises(ConfigError, match="raise num_canonical_nodes"):
        EpochOrder(OrderSpec(64, num_canonical_nodes=1), Mixture(streams, "77b"), 0).batch(0)


@pytest.mark.parametrize("text", ["many", "k", "-3", "0", "1q", "0.5", "1/0", True, False, 1.5])
def test_an_epoch_size_that_is_no_number_is_rejected(text):
    with pytest.raises(ConfigError, match="epoch_size"):
        parse_epoch_size(text)


def test_a_stream_and_an_epoch_may_have_as_many_samples_as_64_bits_allow_and_no_more():
    assert StreamSpec("a", np.array([MAX_SAMPLES])).num_samples == 3_000_000_000
    with pytest.raises(ConfigError, match="stream 'a' has 3000000001 samples: at most 3000000000"):
        StreamSpec("a", np.array([MAX_SAMPLES, 1]))
    assert stream_counts(Mixture((stream(),), MAX_EPOCH_SAMPLES)) == [10**12]
    with pytest.raises(ConfigError, match="the epoch has 1000000000001 samples: at most 1000000000000"):
        stream_counts(Mixture((stream(),), MAX_EPOCH_SAMPLES + 1))


@pytest.mark.parametrize("weights", [{"proportion": 1, "repeat": 2}, {"repeat": 2, "choose": 3}])
def test_a_stream_has_one_weight(weights):
    with pytest.raises(ConfigError, match="stream 'a' has " + " and ".join(weights)):
        stream(**weights)


@pytest.mark.parametrize(
    ("streams", "epoch_size", "is_relative"),
    [
        ((stream("a"),), None, False),
        ((stream("a", repeat=2),), None, False),
        ((stream("a", proportion=2),), None, True),
        ((stream("a"),), 50, True),
    ],
)
def test_weights_are_relative_if_they_divide_an_epoch(streams, epoch_size, is_relative):
    assert Mixture(streams, epoch_size).is_relative is is_relative


@pytest.mark.parametrize(
    ("weights", "epoch_size", "counts"),
    [
        ([{}, {}], None, [100, 200]),
        ([{"repeat": 0.3}, {"choose": 7}], None, [30, 7]),
        ([{"repeat": 2.5}, {}], None, [250, 200]),
        ([{"proportion": 3}, {"proportion": 1}], None, [225, 75]),
        ([{"proportion": 0.1}, {"proportion": 0.2}], "1k", [333, 667]),
        ([{}, {}], 30, [10, 20]),
        ([{"repeat": 2}, {}], 0, [200, 200]),
        ([{"proportion": 1}, {"proportion": 0}], None, [300, 0]),
    ],
)
def test_weights_say_how_many_samples_a_stream_gives(weights, epoch_size, counts):
    streams = tuple(stream(str(i), 100 * (i + 1), **weight) for i, weight in enumerate(weights))
    assert stream_counts(Mixture(streams, epoch_size)) == counts


@given(st.integers(0, 10**9), st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_shares_add_up_and_miss_their_fraction_by_less_than_one(total, weights):
    shares = share_out(total, weights)
    assert sum(shares) == total
    assert all(abs(n - total * w / sum(weights)) < 1.001 for n, w in zip(shares, weights, strict=True))


@pytest.mark.parametrize(
    ("streams", "epoch_size", "message"),
    [
        ((), None, "at least one stream"),
        ((stream("a"), stream("a")), None, r"two streams are named 'a': .* Stream\(name=…\)"),
        ((stream("a", proportion=1), stream("b")), None, "stream 'a' has a proportion but stream 'b' has none"),
        ((stream("a", repeat=2),), 50, "epoch_size=50 contradicts stream 'a'"),
        (
            (StreamSpec("a", np.zeros(2, int), choose=3),),
            None,
            "stream 'a' should give 3 samples but has none: leave",
        ),
        ((stream("a", proportion=0), stream("b", proportion=0)), None, "every stream's proportion is 0"),
    ],
)
def test_weights_that_contradict_each_other_are_rejected_by_name(streams, epoch_size, message):
    with pytest.raises(ConfigError, match=message):
        stream_counts(Mixture(streams, epoch_size))


def test_a_stream_has_one_kind_of_weight():
    with pytest.raises(ConfigError, match="stream 'a' has proportion and repeat"):
        stream(proportion=1, repeat=2)


def test_random_batches_hold_every_stream_in_proportion_all_along():
    order = mixed(a=0.7, b=0.2, c=0.1)
    counts = np.stack(
        [np.bincount(order.positions(row, row + 400).stream_ids, minlength=3) for row in range(0, 4000, 400)]
    )
    assert (np.abs(counts - [280, 80, 40]) <= 16).all()


def test_a_rare_stream_is_spread_over_the_epoch():
    order = mixed(a=0.99, b=0.01, nodes=64)
    places = np.flatnonzero(order.positions(0, 4000).stream_ids)
    assert len(places) == 40
    assert (np.bincount(places // 1000, minlength=4) >= 5).all()


def test_stratified_batches_hold_the_same_number_of_each_stream():
    order = mixed("stratified", a=0.7, b=0.2, c=0.1)
    for index in range(order.num_batches - 10):
        assert np.bincount(order.batch(index).stream_ids).tolist() == [23, 6, 3]


def test_per_stream_batches_come_from_one_stream():
    order = mixed("per_stream", a=0.7, b=0.3)
    assert all(len(np.unique(order.batch(index).stream_ids)) == 1 for index in range(order.num_batches))


@pytest.mark.parametrize("world_size", [8, 16, 32])
def test_a_device_batch_comes_from_one_stream_on_worlds_that_the_canonical_nodes_divide(world_size):
    order = mixed("device_per_stream", a=0.7, b=0.3)
    kinds = [len(set(order.batch(index, World(3, world_size)).stream_ids)) for index in range(order.num_batches)]
    assert set(kinds) == {1}


@pytest.mark.medium
@given(mixtures(max_streams=3))
@settings(max_examples=40)
def test_a_stream_comes_in_the_same_order_in_any_mixture(mixture):
    """The other streams decide when the samples of a stream come, but not their sequence."""
    spec = OrderSpec(8, shuffle=True, num_canonical_nodes=1)
    order = EpochOrder(spec, mixture, 2)
    rows = order.positions(0, order.num_rows)
    for number, (own, phase) in enumerate(zip(mixture.streams, order.phases[0].streams, strict=True)):
        assume(phase.num_samples)
        others = (StreamSpec(s.name, s.shard_sizes, choose=0) for s in mixture.streams[:number])
        alone = Mixture((*others, StreamSpec(own.name, own.shard_sizes, choose=phase.num_samples)))
        expected = EpochOrder(spec, alone, 2).positions(0, phase.num_samples).sample_ids
        assert np.array_equal(rows.sample_ids[rows.stream_ids == number], expected)


@pytest.mark.parametrize("method", list(BatchingMethod))
def test_an_epoch_without_samples_has_no_batches_and_has_given_nothing(method):
    order = EpochOrder(OrderSpec(24, batching_method=method), Mixture((StreamSpec("a", np.array([0])),)), 0)
    assert (order.num_batches, order.num_samples) == (0, 0)
    assert order.stream_positions(0) == {"a": 0}


@pytest.mark.parametrize(
    ("method", "sizes", "message"),
    [
        ("random", {"a": 8, "b": 16}, "no meaning with batching_method='random'"),
        ("stratified", {"a": 8, "b": 8}, "add up to 16, but the global batch is 24"),
        ("per_stream", {"a": 8, "b": None}, "stream 'b' has no batch_size"),
    ],
)
def test_batch_sizes_that_do_not_fit_the_method_are_rejected(method, sizes, message):
    with pytest.raises(ConfigError, match=message):
        own_sizes(method, 24, **sizes)


def test_a_stream_too_rare_for_a_stratified_batch_is_rejected():
    with pytest.raises(ConfigError, match="stream 'b' has no row in a global batch of 32"):
        mixed("stratified", a=0.999, b=0.001)
