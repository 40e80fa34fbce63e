"""Computes the phases of an epoch: from which row on which mixture applies, and what streams gave before it.

An epoch has one phase until its mixture is changed while it runs. A phase contains only counts, so earlier phases can
be computed without the data of streams that have left the mixture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, StateError
from headrace.streaming.order.bijection import mix
from headrace.streaming.order.layouts import OwnBatchLayout, RowLayout, SlotLayout, StratifiedLayout
from headrace.streaming.order.mixing import Mixture, StreamSpec, share_out, stream_counts
from headrace.streaming.order.spec import BatchingMethod, LastBatch, OrderSpec

_PHASE = 301

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PhaseStream:
    """Part of one stream that is in a phase.

    Attributes:
        name: name of the stream.
        num_samples: samples of the stream in this phase.
        batch_size: batch size of the stream, if it has its own.
    """

    name: str
    num_samples: int
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class EpochPhase:
    """A part of an epoch with one mixture: from row `start` of the epoch to the next phase, or to the end."""

    start: int
    streams: tuple[PhaseStream, ...]


@dataclass(frozen=True, slots=True)
class CurrentPhase:
    """The last phase of an epoch, with what follows for it from the phases before.

    Attributes:
        phase: the phase.
        layout: its rows, counted from its start.
        planned: by stream, the samples that were planned when the stream entered the epoch; they fix its order.
        numbers: by stream, its number in the sequence in which streams entered the epoch; a new mixture changes none.
        taken: by stream name, also of streams that have left, the samples that earlier phases took, (num_slots,).
    """

    phase: EpochPhase
    layout: RowLayout
    planned: tuple[int, ...]
    numbers: tuple[int, ...]
    taken: dict[str, Ints]

    def taken_before(self, row: int) -> dict[str, Ints]:
        """By stream name, samples taken from each slot before `row` of the epoch, a batch's start in this phase."""
        here = self.layout.taken(row - self.phase.start)
        before = dict(self.taken)
        for stream, count in zip(self.phase.streams, here, strict=True):
            before[stream.name] = before.get(stream.name, np.zeros_like(count)) + count
        return before


def first_phase(mixture: Mixture) -> EpochPhase:
    """The first phase of an epoch, and the only one if its mixture does not change."""
    return _phase(0, mixture, stream_counts(mixture))


def next_phase(opened: CurrentPhase, row: int, mixture: Mixture) -> EpochPhase:
    """A phase with a new mixture from `row` on.

    Streams that stay continue at their positions, and new ones begin at their beginning. With proportions (or no
    weights), the rest of `epoch_size` is divided by the new proportions. With `repeat` or `choose`, each stream gives
    the samples of its new count that it has not given yet.
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
    return _phase(row, mixture, counts)


def _share_of(stream: StreamSpec) -> float:
    return stream.num_samples if stream.proportion is None else stream.proportion


def _num_below(taken: Ints, stop: int) -> int:
    """Number of taken positions below `stop`: some slots are ahead of others, perhaps beyond `stop`."""
    slots = np.arange(len(taken))
    return int(np.minimum(taken, np.maximum(-((slots - stop) // len(slots)), 0)).sum())


def current_phase(spec: OrderSpec, epoch: int, phases: Sequence[EpochPhase]) -> CurrentPhase:
    """Compute the last of the phases of an epoch.

    Raises:
        ConfigError: batch sizes that do not fit the batching method.
        StateError: the phases are not in order, or one starts inside a global batch of the one before.
    """
    if not phases or phases[0].start != 0 or any(b.start < a.start for a, b in pairwise(phases)):
        raise StateError(
            f"the phases of an epoch begin at row 0 and have increasing starts, not {[phase.start for phase in phases]}"
        )
    taken: dict[str, Ints] = {}
    planned: dict[str, int] = {}
    opened: CurrentPhase | None = None
    for number, phase in enumerate(phases):
        if opened is not None:
            check_batch_start(spec, opened, phase.start)
            taken = opened.taken_before(phase.start)
        for stream in phase.streams:
            planned.setdefault(stream.name, stream.num_samples)
        layout = _layout(
            spec, phase, taken, int(mix(spec.shuffle_seed, _PHASE, epoch + 1 if spec.shuffle else 0, number))
        )
        names = [stream.name for stream in phase.streams]
        entered = list(planned)
        opened = CurrentPhase(
            phase, layout, tuple(planned[name] for name in names), tuple(entered.index(name) for name in names), taken
        )
    assert opened is not None  # there is at least one phase
    return opened


def check_batch_start(spec: OrderSpec, opened: CurrentPhase, row: int) -> int:
    """Number, in its phase, of the global batch that starts at `row` of the epoch; 0 if every row may start one.

    Raises:
        StateError: `row` is not in the phase, or it is inside a global batch and the order depends on the batch size.
    """
    within = row - opened.phase.start
    if within < 0:
        raise StateError(
            f"sample_in_epoch is {row}, but the last phase begins at {opened.phase.start}: the state was edited"
        )
    if not spec.needs_global_batch:
        return 0
    low, high = 0, opened.layout.num_batches
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if opened.layout.batch_start(middle) <= within else (low, middle - 1)
    start = opened.layout.batch_start(low)
    if start != within:
        raise StateError(
            f"sample_in_epoch is {row}, but no global batch begins there (one does at {opened.phase.start + start}): "
            f"this order depends on the global batch size, {spec.global_batch_size}; resume with the one that was saved"
        )
    return low


def _phase(start: int, mixture: Mixture, counts: Sequence[int]) -> EpochPhase:
    streams = zip(mixture.streams, counts, strict=True)
    return EpochPhase(start, tuple(PhaseStream(stream.name, count, stream.batch_size) for stream, count in streams))


def _layout(spec: OrderSpec, phase: EpochPhase, taken: dict[str, Ints], key: int) -> RowLayout:
    num_slots = {
        BatchingMethod.RANDOM: spec.num_canonical_nodes,
        BatchingMethod.DEVICE_PER_STREAM: gcd(spec.num_canonical_nodes, spec.global_batch_size),
    }.get(spec.batching_method, 1)
    begin = np.stack([taken.get(stream.name, np.zeros(num_slots, np.int64)) for stream in phase.streams])
    wanted = [stream.num_samples for stream in phase.streams]
    counts = np.stack([_deal(slots, count) for slots, count in zip(begin, wanted, strict=True)])
    drop_last = spec.last_batch is LastBatch.DROP
    sizes = _own_batch_sizes(spec, phase)
    if spec.batching_method is BatchingMethod.STRATIFIED:
        portions = np.array(sizes or _portions(spec, phase), np.int64)
        nodes = spec.num_canonical_nodes
        return StratifiedLayout(begin[:, 0], counts[:, 0], portions, nodes, drop_last, key)
    if sizes:
        return OwnBatchLayout(begin[:, 0], counts[:, 0], np.array(sizes, np.int64), drop_last, key)
    unit = 1 if spec.batching_method is BatchingMethod.RANDOM else spec.global_batch_size // num_slots
    return SlotLayout(begin, counts, unit, phase.start % num_slots, spec.global_batch_size, drop_last, key)


def _deal(taken: Ints, count: int) -> Ints:
    """Samples of each slot, (num_slots,), among the `count` lowest positions that are not taken yet."""
    slots = np.arange(len(taken))

    def below(stop: int) -> Ints:
        return np.asarray(np.maximum(-((slots - stop) // len(slots)) - taken, 0))

    low, high = 0, (int(taken.max()) + count + 1) * len(slots)
    while low < high:  # each step of `stop` adds one position or none, so some `stop` gives exactly `count`
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle).sum() >= count else (middle + 1, high)
    return below(low)


def _portions(spec: OrderSpec, phase: EpochPhase) -> list[int]:
    portions = share_out(spec.global_batch_size, [stream.num_samples for stream in phase.streams])
    for stream, portion in zip(phase.streams, portions, strict=True):
        if stream.num_samples and not portion:
            way_out = "give batch_size per stream"
            if not phase.start:  # later, the state fixes the batch size, and weights divide the rest of the epoch
                way_out = f"enlarge the batch or the stream's weight, or {way_out}"
            raise ConfigError(
                f"stream {stream.name!r} has no row in a global batch of {spec.global_batch_size}: its share is too "
                f"small for stratified batches; {way_out}"
            )
    return portions


def _own_batch_sizes(spec: OrderSpec, phase: EpochPhase) -> list[int]:
    """Every stream's own batch size, or an empty list if none has one."""
    given = [stream.batch_size for stream in phase.streams if stream.batch_size is not None]
    if not given:
        return []
    method = spec.batching_method
    if method not in (BatchingMethod.STRATIFIED, BatchingMethod.PER_STREAM):
        raise ConfigError(
            f"Stream(batch_size=…) has no meaning with batching_method={method.value!r}: use 'stratified' (its rows in "
            "every global batch) or 'per_stream' (the size of its global batches)"
        )
    if len(given) != len(phase.streams):
        without = next(stream.name for stream in phase.streams if stream.batch_size is None)
        raise ConfigError(f"stream {without!r} has no batch_size but others have: give every stream one, or none")
    if method is BatchingMethod.STRATIFIED and sum(given) != spec.global_batch_size:
        raise ConfigError(
            f"the streams' batch sizes add up to {sum(given)}, but the global batch is {spec.global_batch_size}: make "
            "them equal"
        )
    return given
