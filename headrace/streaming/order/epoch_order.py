"""The order of an epoch: global batch g, row t → which sample of which stream.

An `EpochOrder` is the entry to this package (docs/order.md). It is arithmetic over the lists of shard sizes: time and
memory do not grow with the length of the epoch, and there is no I/O, no thread and no torch. Only `EpochOrder.batch`
uses the world: it selects one rank's rows of a global batch, which is the same on every world.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.passes import StreamOrder
from headrace.streaming.order.phases import EpochPhase, check_batch_start, current_phase, first_phase
from headrace.streaming.order.spec import LastBatch, OrderSpec
from headrace.streaming.order.stream_orders import StreamOrders
from headrace.streaming.world import ALONE, World

PADDING = -1
"""Sample id of a row without a sample."""

_AHEAD = 16  # batches computed together: one of 256 rows of five streams takes 0.25 ms, alone 1.4 (benchmarks/order.py)
_AHEAD_ROWS = 4096  # rows of one rank that are computed together later in a run, whatever the size of a batch


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a global batch, in order.

    Attributes:
        stream_ids: int32 (num_rows,); index into the list of streams; 0 where padding.
        sample_ids: int64 (num_rows,); number of the sample in the storage order of the stream (shards end to end);
            `PADDING` for a row without a sample.
    """

    stream_ids: NDArray[np.int32]
    sample_ids: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sample_ids)

    def __getitem__(self, rows: slice | NDArray[np.integer] | NDArray[np.bool_]) -> "Rows":
        """Some of the rows, with the indexing rules of numpy."""
        return Rows(self.stream_ids[rows], self.sample_ids[rows])

    def without(self, samples: Sequence[NDArray[np.int64]]) -> "Rows":
        """The rows with padding in place of some samples, which are given for each stream."""
        ids = self.sample_ids.copy()
        for number, left_out in enumerate(samples):
            ids[(self.stream_ids == number) & np.isin(ids, left_out)] = PADDING
        return Rows(self.stream_ids, ids)

    @property
    def is_padding(self) -> NDArray[np.bool_]:
        """(num_rows,); whether a row is padding."""
        return np.asarray(self.sample_ids == PADDING)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows end to end."""
    streams = np.concatenate([np.zeros(0, np.int32), *(rows.stream_ids for rows in parts)])
    return Rows(streams, np.concatenate([np.zeros(0, np.int64), *(rows.sample_ids for rows in parts)]))


@dataclass(frozen=True, slots=True, eq=False)
class _BatchesAhead:
    """Batches that were computed together: `batches[i]` is batch ``first + i`` for `world`."""

    first: int
    world: World
    batches: list[Rows]


class EpochOrder:
    """The order of one epoch: a pure function of its arguments, the same on every world.

    Rows of the epoch are counted from 0 over all global batches, padding rows included. `start` is the row at which
    this order begins, and batch 0 is the first batch from there.
    """

    def __init__(
        self,
        spec: OrderSpec,
        mixture: Mixture,
        epoch: int,
        *,
        phases: Sequence[EpochPhase] = (),
        start: int = 0,
    ) -> None:
        """Order of `epoch`.

        Args:
            spec: what the order depends on besides data, weights and epoch.
            mixture: the streams, their weights and the epoch's size.
            epoch: number of the epoch, at least 0.
            phases: the phases of the epoch so far, the last with this mixture, as `state.resume` computes them; empty
                for an epoch from its beginning.
            start: row of the epoch at which batch 0 begins; `sample_in_epoch` of a saved state.

        Raises:
            ConfigError: the settings contradict each other (as `mixing.stream_counts`, and batch sizes that do not fit
                the batching method).
            StateError: `start` is inside a global batch, where the order depends on the global batch size.
        """
        self.spec = spec
        self.epoch = epoch
        self.start = start
        self.phases: tuple[EpochPhase, ...] = tuple(phases) or (first_phase(mixture),)
        _check_names(mixture.streams, self.phases[-1])
        self._opened = current_phase(spec, epoch, self.phases)
        self._layout = self._opened.layout
        self._first_batch = check_batch_start(spec, self._opened, start)
        self._ahead: _BatchesAhead | None = None
        self.streams = [
            StreamOrder(spec, number, stream.shard_sizes, epoch, planned)
            for stream, number, planned in zip(mixture.streams, self._opened.numbers, self._opened.planned, strict=True)
        ]
        self._samples = StreamOrders(self.streams)

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch, as many as ``last_batch="pad"`` delivers; padding is not counted."""
        earlier = sum(int(taken.sum()) for taken in self._opened.taken.values())
        return earlier + sum(stream.num_samples for stream in self.phases[-1].streams)

    @property
    def num_rows(self) -> int:
        """Rows of the last phase up to its last sample."""
        return self._layout.num_rows

    @property
    def num_batches(self) -> int:
        """Global batches from `start` to the end of the epoch; the same for every rank of every world."""
        return self.num_batches_from(self.start)

    def num_batches_from(self, row: int) -> int:
        """Global batches from a row of the last phase to the end of the epoch.

        Raises:
            StateError: `row` is inside a global batch, where the order depends on the global batch size.
        """
        if self.spec.needs_global_batch:
            return self._layout.num_batches - check_batch_start(self.spec, self._opened, row)
        rows = max(0, self._layout.num_rows - (row - self.phases[-1].start))
        size = self.spec.global_batch_size
        return rows // size if self.spec.last_batch is LastBatch.DROP else -(-rows // size)

    @property
    def first_batch(self) -> int:
        """Number in its phase of batch 0, where the order depends on the global batch size; else 0."""
        return self._first_batch

    def batch(self, index: int, world: World = ALONE) -> Rows:
        """Rows of global batch `index` (counted from `start`) that belong to `world`'s rank.

        Raises:
            IndexError: not in [0, num_batches).
            ConfigError: the batch does not divide by the world size.
        """
        if not 0 <= index < self.num_batches:
            raise IndexError(f"batch {index} of {self.num_batches}")
        ahead = self._ahead
        if ahead is None or ahead.world != world or not 0 <= index - ahead.first < len(ahead.batches):
            self._ahead = ahead = self._look_ahead(*_next_ahead(ahead, index), world)
        return ahead.batches[index - ahead.first]

    def positions(self, start: int, stop: int) -> Rows:
        """Rows [start, stop) of the epoch, of any batches; rows past the end are padding.

        Raises:
            IndexError: `start` is before the last phase; the streams of earlier phases may be gone.
        """
        if start < self.phases[-1].start:
            raise IndexError(f"row {start} is before the mixture's last change, at row {self.phases[-1].start}")
        return self._rows(np.arange(start, stop))

    def batch_start(self, index: int) -> int:
        """Row of the epoch at which global batch `index` begins: `sample_in_epoch` after `index` batches."""
        if not self.spec.needs_global_batch:
            return self.start + index * self.spec.global_batch_size
        return self.phases[-1].start + self._layout.batch_start(self._first_batch + index)

    def stream_positions(self, row: int) -> dict[str, int]:
        """Samples of each stream before `row` of the epoch, a batch's start; also of streams that have left."""
        taken = self._opened.taken_before(row)
        return {name: int(samples.sum()) for name, samples in taken.items()}

    def _look_ahead(self, first: int, count: int, world: World) -> "_BatchesAhead":
        """Compute several batches together: they share the cost of each numpy call."""
        starts = [self.batch_start(index) for index in range(first, min(first + count, self.num_batches) + 1)]
        sizes = [world.batch_size(stop - begin) for begin, stop in pairwise(starts)]
        rows = self._rows(np.arange(starts[0] + world.rank, starts[-1], world.world_size))
        ends = np.cumsum(sizes)
        return _BatchesAhead(first, world, [rows[end - size : end] for end, size in zip(ends, sizes, strict=True)])

    def _rows(self, row: NDArray[np.int64]) -> Rows:
        stream, position = self._layout.locate(row - self.phases[-1].start)
        samples = np.full_like(position, PADDING)
        held = position >= 0
        if held.all():
            samples = self._samples.sample_ids(stream, position)
        else:
            samples[held] = self._samples.sample_ids(stream[held], position[held])
        return Rows(stream.astype(np.int32), samples)


def _next_ahead(ahead: _BatchesAhead | None, index: int) -> tuple[int, int]:
    """First and number of the batches to compute for batch `index`: twice as many each time, while all are used."""
    if ahead is None or not 0 <= index - ahead.first - len(ahead.batches) < _AHEAD:
        return index // _AHEAD * _AHEAD, _AHEAD
    num_rows = sum(map(len, ahead.batches))
    count = 2 * len(ahead.batches) if 2 * num_rows <= _AHEAD_ROWS else len(ahead.batches)
    return ahead.first + len(ahead.batches), count


def _check_names(streams: Sequence[StreamSpec], phase: EpochPhase) -> None:
    given, expected = [stream.name for stream in streams], [stream.name for stream in phase.streams]
    if given != expected:
        raise ConfigError(f"the streams are {given}, but this phase of the epoch was planned for {expected}")
