"""Assigns the samples of each stream to the rows of global batches, for each batching method.

A layout covers one phase of an epoch. Its rows are counted from the start of the phase, and each stream continues where
the phases before ended. A layout maps rows to positions in the orders of the streams; `passes` maps positions to
samples.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.format.lazy import cached_property
from headrace.streaming.order.bijection import mix
from headrace.streaming.order.interleave import Interleave

_ROW_SHUFFLE = 201

Ints = NDArray[np.int64]


class RowLayout(Protocol):
    """Maps the rows of a phase to positions of its streams."""

    @property
    def num_rows(self) -> int:
        """Rows up to the last one with a sample, or with the padding that completes its unit."""

    @property
    def num_batches(self) -> int:
        """Global batches, as many as `LastBatch` keeps; the same for every rank."""

    def batch_start(self, batch: int) -> int:
        """Row at which global batch `batch` begins, for `batch` in [0, num_batches]."""

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """Stream of each row, and its position in the order of that stream; position -1 for padding."""

    def taken(self, row: int) -> Ints:
        """(num_streams, num_slots); samples taken before `row`, a batch's start, from each slot of each stream.

        Slot c of a stream has its positions c, c + num_slots, c + 2 * num_slots, ...; they are taken in this order.
        """


@dataclass(frozen=True, eq=False)
class SlotLayout:
    """Rows take the canonical-node slots in turn; a slot is a sequence of units, each of one stream.

    ``random``: num_canonical_nodes slots, and a unit is one sample. ``device_per_stream``: as many slots as a global
    batch has batches of devices, and a unit is the batch of a device. ``per_stream``: one slot, and a unit is a global
    batch. Position q of a stream is in slot ``q % num_slots``, so the rows of a slot stay in the shards of one
    canonical node.

    Slots differ slightly in length: when the shortest has ended, the remaining units of the others follow, slot by
    slot.

    Attributes:
        begin: (num_streams, num_slots); samples of each slot that earlier phases took.
        counts: (num_streams, num_slots); samples of each slot that this phase takes.
        unit: samples in a unit.
        first_slot: slot of row 0.
        batch_size: rows of a global batch.
        drop_last: whether samples that do not fill a unit, and units that do not fill a batch, are left out.
        key: key of the shuffle.
    """

    begin: Ints
    counts: Ints
    unit: int
    first_slot: int
    batch_size: int
    drop_last: bool
    key: int

    @cached_property
    def num_rows(self) -> int:
        """Number of rows; see `RowLayout.num_rows`."""
        return int(self._interleave.counts.sum()) * self.unit

    @cached_property
    def num_batches(self) -> int:
        """Number of global batches; see `RowLayout.num_batches`."""
        return self.num_rows // self.batch_size if self.drop_last else -(-self.num_rows // self.batch_size)

    def batch_start(self, batch: int) -> int:
        """First row of a global batch; see `RowLayout.batch_start`."""
        return batch * self.batch_size

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """Stream and position of each row; see `RowLayout.locate`."""
        streams, positions = np.zeros_like(row), np.full_like(row, -1)
        slot, unit, offset = self._unit_of(row)
        held = unit >= 0
        streams[held], positions[held] = self._within_unit(slot[held], unit[held], offset[held])
        return streams, positions

    def _unit_of(self, row: Ints) -> tuple[Ints, Ints, Ints]:
        """Slot of each row, number of its unit in the slot (-1 past the end), and offset of the row in the unit."""
        num_slots = self.counts.shape[1]
        rounds, leftovers = self._split
        visit, slot = np.divmod(row, num_slots)
        round_, offset = np.divmod(visit, self.unit)
        late = (round_ - rounds) * num_slots + slot  # number of the leftover unit, if not negative
        owner = np.searchsorted(leftovers, np.clip(late, 0, leftovers[-1] - 1), side="right") - 1
        slot = (np.where(late < 0, slot, owner) + self.first_slot) % num_slots
        unit = np.where(late < 0, round_, rounds + late - leftovers[owner])
        return slot, np.where(late < leftovers[-1], unit, -1), offset

    def _within_unit(self, slot: Ints, unit: Ints, offset: Ints) -> tuple[Ints, Ints]:
        stream, number = self._interleave.locate(slot, unit)
        item = number * self.unit + offset
        position = (self.begin[stream, slot] + item) * self.counts.shape[1] + slot
        return stream, np.where(item < self.counts[stream, slot], position, -1)

    def taken(self, row: int) -> Ints:
        """Samples taken before a row; see `RowLayout.taken`."""
        num_slots = self.counts.shape[1]
        rounds, leftovers = self._split
        round_, rest = divmod(row, num_slots * self.unit)
        visits = rest if self.unit == 1 else 0
        late = max(0, (round_ - rounds) * num_slots + visits)
        visited = np.arange(num_slots)  # slots in the order in which rows visit them
        units = min(round_, rounds) + ((visited < visits) if round_ < rounds else 0)
        units = units + np.clip(late - leftovers[:-1], 0, np.diff(leftovers))
        slot = (visited + self.first_slot) % num_slots
        taken = np.zeros_like(self.counts)
        taken[:, slot] = self._interleave.num_before(slot, units.astype(np.int64)) * self.unit
        return np.minimum(taken, self.counts)

    @cached_property
    def _interleave(self) -> Interleave:
        units = self.counts // self.unit if self.drop_last else -(-self.counts // self.unit)
        return Interleave(units, self.key)

    @cached_property
    def _split(self) -> tuple[int, Ints]:
        """Rounds in which every slot has a unit; begin of each slot's leftover units, as visited, (num_slots + 1,)."""
        units = np.roll(self._interleave.slot_units, -self.first_slot)
        rounds = int(units.min())
        return rounds, np.concatenate([[0], np.cumsum(units - rounds)])


@dataclass(frozen=True, eq=False)
class StratifiedLayout:
    """Every global batch has `portions[s]` samples of stream s, in rows that a keyed hash shuffles.

    The row of a sample is in a slot close to its own, so the samples of a rank come from few shards; it is in exactly
    its own slot if the portions are multiples of the number of slots.

    Attributes:
        begin: (num_streams,); positions that earlier phases took.
        counts: (num_streams,); samples that this phase takes.
        portions: (num_streams,); rows of each stream in every global batch.
        num_slots: canonical nodes.
        drop_last: True ends the phase when the first stream cannot fill its rows, False after the last sample.
        key: key of the shuffle.
    """

    begin: Ints
    counts: Ints
    portions: Ints
    num_slots: int
    drop_last: bool
    key: int

    @cached_property
    def num_rows(self) -> int:
        """Number of rows; see `RowLayout.num_rows`."""
        return self.num_batches * int(self.portions.sum())

    @cached_property
    def num_batches(self) -> int:
        """Number of global batches; see `RowLayout.num_batches`."""
        used = self.portions > 0
        if not used.any():
            return 0
        counts, portions = self.counts[used], self.portions[used]
        return int((counts // portions).min() if self.drop_last else (-(-counts // portions)).max())

    def batch_start(self, batch: int) -> int:
        """First row of a global batch; see `RowLayout.batch_start`."""
        return batch * int(self.portions.sum())

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """Stream and position of each row; see `RowLayout.locate`."""
        batch, row_in_batch = np.divmod(row, int(self.portions.sum()))
        streams, positions = np.empty_like(row), np.empty_like(row)
        for wanted in sorted(set(batch.tolist())):
            rows = batch == wanted
            of_row = self._batch(wanted)
            streams[rows], positions[rows] = (values[row_in_batch[rows]] for values in of_row)
        return streams, positions

    def _batch(self, batch: int) -> tuple[Ints, Ints]:
        """Stream and position of every row of a global batch."""
        stream = np.repeat(np.arange(len(self.portions)), self.portions)
        within = np.arange(len(stream)) - (np.cumsum(self.portions) - self.portions)[stream]
        taken = batch * self.portions[stream] + within
        position = self.begin[stream] + taken
        order = np.lexsort((mix(self.key, _ROW_SHUFFLE, batch, stream, within), position % self.num_slots))
        rows_by_slot = np.argsort(np.arange(len(stream)) % self.num_slots, kind="stable")
        streams, positions = np.empty_like(stream), np.empty_like(stream)
        streams[rows_by_slot] = stream[order]
        positions[rows_by_slot] = np.where(taken < self.counts[stream], position, -1)[order]
        return streams, positions

    def taken(self, row: int) -> Ints:
        """Samples taken before a row; see `RowLayout.taken`."""
        batch = row // max(1, int(self.portions.sum()))  # 0 where no stream has a sample
        return np.minimum(batch * self.portions, self.counts)[:, None]


@dataclass(frozen=True, eq=False)
class OwnBatchLayout:
    """Every global batch is of one stream, and has the batch size of that stream.

    Attributes:
        begin: (num_streams,); positions that earlier phases took.
        counts: (num_streams,); samples that this phase takes.
        batch_sizes: (num_streams,); rows of a global batch of each stream.
        drop_last: whether samples that do not fill a batch are left out.
        key: key of the shuffle.
    """

    begin: Ints
    counts: Ints
    batch_sizes: Ints
    drop_last: bool
    key: int

    @cached_property
    def num_rows(self) -> int:
        """Number of rows; see `RowLayout.num_rows`."""
        return int(self._interleave.counts[:, 0] @ self.batch_sizes)

    @cached_property
    def num_batches(self) -> int:
        """Number of global batches; see `RowLayout.num_batches`."""
        return int(self._interleave.counts.sum())

    def batch_start(self, batch: int) -> int:
        """First row of a global batch; see `RowLayout.batch_start`."""
        return int(self._starts(np.array([batch]))[0])

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """Stream and position of each row; see `RowLayout.locate`."""
        streams, positions = np.zeros_like(row), np.full_like(row, -1)
        inside = row < self.num_rows
        batch = self._batch_of(row[inside])
        stream, number = self._interleave.locate(np.zeros_like(batch), batch)
        taken = number * self.batch_sizes[stream] + row[inside] - self._starts(batch)
        streams[inside] = stream
        positions[inside] = np.where(taken < self.counts[stream], self.begin[stream] + taken, -1)
        return streams, positions

    def taken(self, row: int) -> Ints:
        """Samples taken before a row; see `RowLayout.taken`."""
        batch = self._batch_of(np.array([row]))
        batches = self._interleave.num_before(np.zeros_like(batch), batch)
        return np.asarray(np.minimum(batches * self.batch_sizes[:, None], self.counts[:, None]))

    @cached_property
    def _interleave(self) -> Interleave:
        counts = self.counts[:, None]
        sizes = self.batch_sizes[:, None]
        return Interleave(counts // sizes if self.drop_last else -(-counts // sizes), self.key)

    def _starts(self, batch: Ints) -> Ints:
        unique, inverse = np.unique(batch, return_inverse=True)
        return np.asarray((self.batch_sizes @ self._interleave.num_before(np.zeros_like(unique), unique))[inverse])

    def _batch_of(self, row: Ints) -> Ints:
        """Batch of each row, or the number of batches past the end: a binary search, since batches differ in size."""
        low, high = np.zeros_like(row), np.full_like(row, self.num_batches)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._starts(middle) <= row
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low
