"""The legs of an epoch: which mixture holds from which row on, and what each stream has given before.

An epoch has one leg until its mixture is changed while it runs. A leg is written down as counts alone, so the past of
an epoch can be followed without the data of a stream that has left the mixture. Must not look at samples or shards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, StateError
from headrace.streaming.order.bijection import mix
from headrace.streaming.order.layouts import LaneLayout, Layout, OwnBatchLayout, StratifiedLayout
from headrace.streaming.order.mixing import Mixture, StreamSpec, share_out, stream_counts
from headrace.streaming.order.spec import BatchingMethod, LastBatch, OrderSpec

_LEG = 301

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LegStream:
    """What one stream gives to a leg.

    Attributes:
        name: the stream's name.
        num_samples: samples of the stream in this leg.
        batch_size: the stream's own batch size, if it has one.
    """

    name: str
    num_samples: int
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of an epoch with one mixture: from row `start` of the epoch to the next leg, or to the end."""

    start: int
    streams: tuple[LegStream, ...]


@dataclass(frozen=True, slots=True)
class OpenLeg:
    """The leg that an epoch is in, with what it inherits from the legs before.

    Attributes:
        leg: the leg.
        layout: its rows, counted from its start.
        planned: samples that each of its streams was to give when it entered the epoch: what fixes the stream's order.
        numbers: each of its streams' number in the order of entering the epoch, which a change of mixture leaves alone.
        taken: by stream name, also of streams that have left: (num_lanes,) samples that earlier legs took.
    """

    leg: Leg
    layout: Layout
    planned: tuple[int, ...]
    numbers: tuple[int, ...]
    taken: dict[str, Ints]

    def taken_before(self, row: int) -> dict[str, Ints]:
        """By stream name, samples taken from each lane before `row` of the epoch, a batch's start in this leg."""
        here = self.layout.taken(row - self.leg.start)
        before = dict(self.taken)
        for stream, count in zip(self.leg.streams, here, strict=True):
            before[stream.name] = before.get(stream.name, np.zeros_like(count)) + count
        return before


def first_leg(mixture: Mixture) -> Leg:
    """The leg of an epoch whose mixture does not change."""
    return _leg(0, mixture, stream_counts(mixture))


def next_leg(opened: OpenLeg, row: int, mixture: Mixture) -> Leg:
    """A leg with a new mixture from `row` on.

    Streams that stay go on where they were, new ones begin at their beginning. With proportions (or none), what is left
    of the epoch's size is shared out by the new proportions; with `repeat` or `choose`, each stream gives those of its
    new count's samples that it has not given.
    """
    before = opened.taken_before(row)
    counts = stream_counts(mixture)
    if mixture.is_relative:
        left = max(0, sum(counts) - sum(int(taken.sum()) for taken in before.values()))
        counts = share_out(left, [_share_of(stream) for stream in mixture.streams])
    else:
        counts = [
            count - _num_below(before[stream.name], count) if stream.name in before else count
            for stream, count in zip(mixture.streams, counts, strict=True)
        ]
    return _leg(row, mixture, counts)


def _share_of(stream: StreamSpec) -> float:
    return stream.num_samples if stream.proportion is None else stream.proportion


def _num_below(taken: Ints, stop: int) -> int:
    """How many of the positions below `stop` are taken: lanes run ahead of each other, some beyond it."""
    lanes = np.arange(len(taken))
    return int(np.minimum(taken, np.maximum(-((lanes - stop) // len(lanes)), 0)).sum())


def open_leg(spec: OrderSpec, epoch: int, legs: Sequence[Leg]) -> OpenLeg:
    """Follow an epoch's legs up to the last one.

    Raises:
        ConfigError: batch sizes that do not fit the batching method.
        StateError: the legs are not in order, or one starts inside a global batch of the one before.
    """
    if not legs or legs[0].start != 0 or any(b.start < a.start for a, b in pairwise(legs)):
        raise StateError(f"an epoch's legs begin at row 0 and follow one another, not at {[leg.start for leg in legs]}")
    taken: dict[str, Ints] = {}
    planned: dict[str, int] = {}
    opened: OpenLeg | None = None
    for number, leg in enumerate(legs):
        if opened is not None:
            check_batch_start(spec, opened, leg.start)
            taken = opened.taken_before(leg.start)
        for stream in leg.streams:
            planned.setdefault(stream.name, stream.num_samples)
        layout = _layout(spec, leg, taken, int(mix(spec.shuffle_seed, _LEG, epoch + 1 if spec.shuffle else 0, number)))
        names = [stream.name for stream in leg.streams]
        entered = list(planned)
        opened = OpenLeg(
            leg, layout, tuple(planned[name] for name in names), tuple(entered.index(name) for name in names), taken
        )
    assert opened is not None  # there is at least one leg
    return opened


def check_batch_start(spec: OrderSpec, opened: OpenLeg, row: int) -> int:
    """Number in its leg of the global batch that starts at `row` of the epoch; 0 where any row may start one.

    Raises:
        StateError: `row` is not in the leg, or inside a global batch of an order that depends on the batches.
    """
    within = row - opened.leg.start
    if within < 0:
        raise StateError(f"sample_in_epoch is {row}, but the mixture changed at {opened.leg.start}: edited?")
    if not spec.needs_global_batch:
        return 0
    low, high = 0, opened.layout.num_batches
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if opened.layout.batch_start(middle) <= within else (low, middle - 1)
    start = opened.layout.batch_start(low)
    if start != within:
        raise StateError(
            f"sample_in_epoch is {row}, but no global batch begins there (one does at {opened.leg.start + start}): "
            f"this order depends on the global batch size, {spec.global_batch_size}; resume with the one that was saved"
        )
    return low


def _leg(start: int, mixture: Mixture, counts: Sequence[int]) -> Leg:
    streams = zip(mixture.streams, counts, strict=True)
    return Leg(start, tuple(LegStream(stream.name, count, stream.batch_size) for stream, count in streams))


def _layout(spec: OrderSpec, leg: Leg, taken: dict[str, Ints], key: int) -> Layout:
    num_lanes = {
        BatchingMethod.RANDOM: spec.num_canonical_nodes,
        BatchingMethod.DEVICE_PER_STREAM: gcd(spec.num_canonical_nodes, spec.global_batch_size),
    }.get(spec.batching_method, 1)
    begin = np.stack([taken.get(stream.name, np.zeros(num_lanes, np.int64)) for stream in leg.streams])
    wanted = [stream.num_samples for stream in leg.streams]
    counts = np.stack([_deal(lanes, count) for lanes, count in zip(begin, wanted, strict=True)])
    drop_last = spec.last_batch is LastBatch.DROP
    sizes = _own_batch_sizes(spec, leg)
    if spec.batching_method is BatchingMethod.STRATIFIED:
        portions = np.array(sizes or _portions(spec, leg), np.int64)
        nodes = spec.num_canonical_nodes
        return StratifiedLayout(begin[:, 0], counts[:, 0], portions, nodes, drop_last, key)
    if sizes:
        return OwnBatchLayout(begin[:, 0], counts[:, 0], np.array(sizes, np.int64), drop_last, key)
    unit = 1 if spec.batching_method is BatchingMethod.RANDOM else spec.global_batch_size // num_lanes
    return LaneLayout(begin, counts, unit, leg.start % num_lanes, spec.global_batch_size, drop_last, key)


def _deal(taken: Ints, count: int) -> Ints:
    """(num_lanes,) samples of each lane among the `count` lowest positions that are not taken yet."""
    lanes = np.arange(len(taken))

    def below(stop: int) -> Ints:
        return np.asarray(np.maximum(-((lanes - stop) // len(lanes)) - taken, 0))

    low, high = 0, (int(taken.max()) + count + 1) * len(lanes)
    while low < high:  # each step of `stop` adds one position or none, so some `stop` gives exactly `count`
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle).sum() >= count else (middle + 1, high)
    return below(low)


def _portions(spec: OrderSpec, leg: Leg) -> list[int]:
    portions = share_out(spec.global_batch_size, [stream.num_samples for stream in leg.streams])
    for stream, portion in zip(leg.streams, portions, strict=True):
        if stream.num_samples and not portion:
            way_out = "give batch_size per stream"
            if not leg.start:  # else the state binds the batch, and weights share out what is left
                way_out = f"enlarge the batch or the stream's weight, or {way_out}"
            raise ConfigError(
                f"stream {stream.name!r} has no place in a global batch of {spec.global_batch_size}: its share is too "
                f"small for stratified batches; {way_out}"
            )
    return portions


def _own_batch_sizes(spec: OrderSpec, leg: Leg) -> list[int]:
    """Every stream's own batch size, or an empty list if none has one."""
    given = [stream.batch_size for stream in leg.streams if stream.batch_size is not None]
    if not given:
        return []
    method = spec.batching_method
    if method not in (BatchingMethod.STRATIFIED, BatchingMethod.PER_STREAM):
        raise ConfigError(
            f"a stream's own batch_size has no meaning with batching_method={method.value!r}: use 'stratified' (its "
            "rows in every global batch) or 'per_stream' (the size of its global batches)"
        )
    if len(given) != len(leg.streams):
        without = next(stream.name for stream in leg.streams if stream.batch_size is None)
        raise ConfigError(f"stream {without!r} has no batch_size but others do: give every stream one, or none")
    if method is BatchingMethod.STRATIFIED and sum(given) != spec.global_batch_size:
        raise ConfigError(
            f"the streams' batch sizes add up to {sum(given)}, but the global batch is {spec.global_batch_size}: make "
            "them equal"
        )
    return given
