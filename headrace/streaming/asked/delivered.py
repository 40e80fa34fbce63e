"""Computes what an epoch delivered before a row: how often each sample, and in which rows.

All numbers follow from the order: the rows before a point are a prefix of each canonical-node slot of each stream, and
a pass has an inverse. Only the last window of length buckets is enumerated. Nothing is read here.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.streaming.by_length.buckets import GlobalBatches
from headrace.streaming.order.epoch_order import Rows, joined
from headrace.streaming.order.passes import BlockPermutation, FullPermutation, Pass, Picks, StreamOrder
from headrace.streaming.order.phases import CurrentPhase, EpochPhase, check_batch_start, current_phase
from headrace.streaming.order.spec import LastBatch, LengthBuckets, OrderSpec

MOST_ENUMERATED = 10_000_000
"""Samples of an unfinished pass in the order `full` that are counted one by one; of more, the shares are estimated."""

_CHUNK = 1 << 20

Ints = NDArray[np.int64]


class DeliveredRows:
    """The rows of one epoch before a row.

    Attributes:
        epoch: number of the epoch.
        stop: the row.
        taken: by stream, samples that were taken from each canonical-node slot, (num_slots,); without those of an
            unfinished window of length buckets.
        orders: the order of each stream whose shards are known.
    """

    def __init__(
        self, spec: OrderSpec, epoch: int, phases: Sequence[EpochPhase], shard_sizes: Mapping[str, NDArray[np.integer]]
    ) -> None:
        """The whole epoch, until `before` is called.

        Args:
            spec: settings of the order, without `FrameBudget`.
            epoch: number of the epoch.
            phases: its phases.
            shard_sizes: by stream, samples of each shard, (num_shards,); streams that left the mixture may be absent.
        """
        self.epoch = epoch
        self.is_estimated = False
        self._spec = spec
        self._parts = [current_phase(spec, epoch, phases[: number + 1]) for number in range(len(phases))]
        last = self._parts[-1]
        self.orders = {
            stream.name: StreamOrder(spec, number, shard_sizes[stream.name], epoch, planned)
            for stream, number, planned in zip(last.phase.streams, last.numbers, last.planned, strict=True)
            if stream.name in shard_sizes
        }
        self._rest = joined([])
        self._batches: GlobalBatches | None = None
        self.before(_end(spec, last))

    def before(self, stop: int, batches: GlobalBatches | None = None) -> "DeliveredRows":
        """Count only rows before `stop`, the start of a batch; `batches` are those of the epoch with length buckets."""
        self.stop, self._batches, self._rest = stop, batches, joined([])
        prefix = stop
        if batches is not None:
            size = self._spec.global_batch_size
            prefix -= stop % self._window if stop < batches.num_batches * size else 0
            self._rest = joined([batches.batch(index) for index in range(prefix // size, stop // size)])
        self.taken = self._parts[-1].taken_before(prefix)
        return self

    def num_samples(self, name: str) -> int:
        """Samples that a stream gave, also one that has left."""
        return int(self.taken[name].sum()) + len(self._rest_of(name))

    def rows_of(self, name: str, samples: Ints) -> list[tuple[int, int]]:
        """Global batch and row of each delivery of samples of a stream, ascending.

        Args:
            name: the stream.
            samples: int64 (n,), numbers in storage order.
        """
        places = [self._place(name, position) for position in self._positions(name, samples).tolist()]
        if self._batches is None:
            return sorted(places)
        return sorted(self._in_windows(name, samples, [row for _, row in places]))

    def shard_counts(self, name: str) -> Ints:
        """Samples that a stream gave of each shard, int64 (num_shards,)."""
        order = self.orders[name]
        prefix, more = _split(self.taken[name])
        counts = np.zeros(len(order.shard_sizes), np.int64)
        for number, start in order.passes_before(prefix):
            counts += self._counts_of_pass(order, number, start, min(prefix - start, order.size_of_pass(number)))
        samples = np.concatenate([order.sample_ids(more), self._rest_of(name)])
        return np.asarray(counts + np.bincount(order.storage.locate(samples)[0], minlength=len(counts)))

    def sample_counts(self, name: str) -> Ints:
        """Deliveries of each sample of a stream, int64 (size,), in storage order. Enumerates unfinished passes."""
        order = self.orders[name]
        prefix, more = _split(self.taken[name])
        counts = np.bincount(self._rest_of(name), minlength=order.size)
        for number, start in order.passes_before(prefix):
            if min(prefix - start, order.size_of_pass(number)) == order.size:
                counts += 1
                continue
            for part in _chunks(start, min(prefix, start + order.size_of_pass(number))):
                counts += np.bincount(order.sample_ids(part), minlength=order.size)
        return counts + np.bincount(order.sample_ids(more), minlength=order.size)

    def _positions(self, name: str, samples: Ints) -> Ints:
        """Positions of samples in the order of their stream, of those that were taken."""
        taken = self.taken[name]
        slots = len(taken)
        stop = int(((taken - 1) * slots + np.arange(slots) + 1)[taken > 0].max(initial=0))
        found = np.concatenate([np.zeros(0, np.int64), *(p for _, p in self.orders[name].positions(samples, stop))])
        return np.asarray(found[found // slots < taken[found % slots]])

    def _place(self, name: str, position: int) -> tuple[int, int]:
        """Global batch of the epoch, and row, of a position that was taken: a binary search over the batches."""
        first = 0
        for number, part in enumerate(self._parts):
            after = self._parts[number + 1].phase.start if number + 1 < len(self._parts) else self.stop
            count = num_batches(self._spec, part, after)
            names = [stream.name for stream in part.phase.streams]
            taken = part.taken_before(after).get(name, np.zeros(1, np.int64))
            item, slot = divmod(position, len(taken))
            if name in names and item < taken[slot]:
                stream = names.index(name)
                item -= int(part.taken[name][slot]) if name in part.taken else 0
                batch, row = _find(part, count, (stream, slot, item, position))
                return first + batch, part.phase.start + row
            first += count
        raise AssertionError

    def _in_windows(self, name: str, samples: Ints, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Batches and rows of samples in the windows of these rows, and in the unfinished one."""
        assert self._batches is not None
        size, stream = self._spec.global_batch_size, list(self.orders).index(name)
        windows = {row // self._window for row in rows} | ({self.stop // self._window} if len(self._rest) else set())
        for window in sorted(windows):
            for batch in range(window * self._window // size, min(self.stop, (window + 1) * self._window) // size):
                found = self._batches.batch(batch)
                places = np.flatnonzero((found.stream_ids == stream) & np.isin(found.sample_ids, samples))
                yield from ((batch, batch * size + place) for place in places.tolist())

    @property
    def _window(self) -> int:
        """Rows of a window of length buckets."""
        assert isinstance(self._spec.buckets, LengthBuckets)
        return self._spec.buckets.window_batches * self._spec.global_batch_size

    def _rest_of(self, name: str) -> Ints:
        """The samples of a stream in the delivered batches of an unfinished window."""
        rest: Rows = self._rest
        if not len(rest):
            return np.zeros(0, np.int64)
        return np.asarray(rest.sample_ids[(rest.stream_ids == list(self.orders).index(name)) & ~rest.is_padding])

    def _counts_of_pass(self, order: StreamOrder, number: int, start: int, count: int) -> Ints:
        """Samples of each shard among the first `count` positions of a pass."""
        if count == order.size:
            return order.shard_sizes.astype(np.int64)
        if count == order.size_of_pass(number):
            return order.picked_of_shards
        made = order.build_pass(number)
        complete = _complete(made, count)
        line = made.line.starts
        if isinstance(made.permutation, Picks):
            line = made.permutation.num_before(line)
        counts = np.empty(len(line) - 1, np.int64)
        if count - complete > MOST_ENUMERATED:
            self.is_estimated = True
            counts[made.line.numbers] = np.diff(line * count // line[-1])
            return counts
        counts[made.line.numbers] = np.diff(np.minimum(line, complete))
        for part in _chunks(start + complete, start + count):
            counts += np.bincount(order.storage.locate(order.sample_ids(part))[0], minlength=len(counts))
        return counts


def _end(spec: OrderSpec, last: CurrentPhase) -> int:
    """Row at which the last global batch of an epoch ends."""
    if spec.needs_global_batch:
        return last.phase.start + last.layout.batch_start(last.layout.num_batches)
    size, rows = spec.global_batch_size, last.layout.num_rows
    return last.phase.start + (rows // size if spec.last_batch is LastBatch.DROP else -(-rows // size)) * size


def num_batches(spec: OrderSpec, part: CurrentPhase, stop: int) -> int:
    """Global batches of a phase before a row; a last one may be short where the order does not depend on their size."""
    if spec.needs_global_batch:
        return check_batch_start(spec, part, stop)
    return -(-(stop - part.phase.start) // spec.global_batch_size)


def _find(part: CurrentPhase, count: int, wanted: tuple[int, int, int, int]) -> tuple[int, int]:
    """Batch and row in a phase of an item: stream, slot, number in the slot, and position in the stream's order."""
    stream, slot, item, position = wanted
    layout, low, high = part.layout, 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        is_before = layout.taken(layout.batch_start(middle))[stream, slot] <= item
        low, high = (middle, high) if is_before else (low, middle - 1)
    rows = np.arange(layout.batch_start(low), layout.batch_start(low + 1))
    streams, positions = layout.locate(rows)
    return low, int(rows[np.flatnonzero((streams == stream) & (positions == position))[0]])


def _split(taken: Ints) -> tuple[int, Ints]:
    """Number of positions of a stream that are all taken, and the taken positions after them."""
    slots, total = np.arange(len(taken)), int(taken.sum())
    if (taken == -((slots - total) // len(taken))).all():
        return total, np.zeros(0, np.int64)
    prefix = int(taken.min()) * len(taken)
    more = np.arange(prefix, int(taken.max()) * len(taken))
    return prefix, more[more // len(taken) < taken[more % len(taken)]]


def _complete(made: Pass, count: int) -> int:
    """The most of the first `count` positions of a pass that are the same places of its line, in another order."""
    if isinstance(made.permutation, BlockPermutation):
        return int(made.permutation.block_of(np.array([count]))[0][0])
    return 0 if isinstance(made.permutation, FullPermutation) else count


def _chunks(start: int, stop: int) -> Iterator[Ints]:
    """Positions in [start, stop), some at a time."""
    return (np.arange(first, min(first + _CHUNK, stop)) for first in range(start, stop, _CHUNK))


def check_known(spec: OrderSpec, phases: Sequence[EpochPhase]) -> None:
    """Raise `ConfigError` if the rows before a point are not known from the order alone."""
    if spec.buckets is None or (isinstance(spec.buckets, LengthBuckets) and len(phases) == 1):
        return
    if isinstance(spec.buckets, LengthBuckets):
        raise ConfigError(
            "this cannot be computed of an epoch with length buckets whose mixture has changed: ask a state of a later "
            "epoch, or of one before the change"
        )
    raise ConfigError(
        "this cannot be computed with FrameBudget, whose batches do not follow the order of the samples; "
        "`headrace batch` lists single batches"
    )
