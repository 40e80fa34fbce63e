"""Where the samples of each stream go in the rows of global batches, for each batching method.

A layout covers one leg of an epoch: rows are counted from the leg's start, and each stream continues where earlier legs
left it. It maps rows to positions in the streams' own orders (`passes`). Must not know what sample a position is, nor
which rank reads a row.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.lazy import cached_property
from headrace.streaming.order.bijection import mix
from headrace.streaming.order.interleave import Interleave

_SLOT = 201

Ints = NDArray[np.int64]


class Layout(Protocol):
    """Rows of a leg ↔ positions of its streams."""

    @property
    def num_rows(self) -> int:
        """Rows up to the last that holds a sample, or that is padding which its unit needs."""

    @property
    def num_batches(self) -> int:
        """Global batches, as many as `LastBatch` keeps; for every rank alike."""

    def batch_start(self, batch: int) -> int:
        """Row at which global batch `batch` begins, for `batch` in [0, num_batches]."""

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """Stream of each row, and the position in that stream's order; position -1 where padding."""

    def taken(self, row: int) -> Ints:
        """(num_streams, num_lanes); samples taken before `row`, a batch's start, from each lane of each stream.

        Lane c of a stream holds its positions c, c + num_lanes, c + 2 * num_lanes, ...; a lane is taken in order.
        """


@dataclass(frozen=True, eq=False)
class LaneLayout:
    """Rows dealt to lanes round-robin, and each lane a sequence of units of one stream each.

    ``random``: num_canonical_nodes lanes, units of one sample. ``device_per_stream``: as many lanes as devices' batches
    in a global batch, units of a device's batch. ``per_stream``: one lane, units of a global batch. Position q of a
    stream is in lane ``q % num_lanes``, so a lane's rows stay in the shards of one canonical node.

    Lanes differ a little in length: once the shortest has ended, what the others still hold follows, lane by lane.

    Attributes:
        begin: (num_streams, num_lanes); samples of each lane that earlier legs took.
        counts: (num_streams, num_lanes); samples that this leg takes.
        unit: samples in a unit.
        first_lane: lane of row 0.
        batch_size: rows of a global batch.
        drop_last: whether samples that fill no unit, and units that fill no batch, are left out.
        key: what the shuffle depends on.
    """

    begin: Ints
    counts: Ints
    unit: int
    first_lane: int
    batch_size: int
    drop_last: bool
    key: int

    @cached_property
    def num_rows(self) -> int:
        """As `Layout.num_rows`."""
        return int(self._interleave.counts.sum()) * self.unit

    @cached_property
    def num_batches(self) -> int:
        """As `Layout.num_batches`."""
        return self.num_rows // self.batch_size if self.drop_last else -(-self.num_rows // self.batch_size)

    def batch_start(self, batch: int) -> int:
        """As `Layout.batch_start`."""
        return batch * self.batch_size

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """As `Layout.locate`."""
        streams, positions = np.zeros_like(row), np.full_like(row, -1)
        lane, unit, offset = self._unit_of(row)
        held = unit >= 0
        streams[held], positions[held] = self._within_unit(lane[held], unit[held], offset[held])
        return streams, positions

    def _unit_of(self, row: Ints) -> tuple[Ints, Ints, Ints]:
        """Lane of each row, number of its unit in the lane (-1 past the end), and offset of the row in the unit."""
        num_lanes = self.counts.shape[1]
        rounds, leftovers = self._split
        visit, lane = np.divmod(row, num_lanes)
        round_, offset = np.divmod(visit, self.unit)
        late = (round_ - rounds) * num_lanes + lane  # which of the leftover units, if not negative
        owner = np.searchsorted(leftovers, np.clip(late, 0, leftovers[-1] - 1), side="right") - 1
        lane = (np.where(late < 0, lane, owner) + self.first_lane) % num_lanes
        unit = np.where(late < 0, round_, rounds + late - leftovers[owner])
        return lane, np.where(late < leftovers[-1], unit, -1), offset

    def _within_unit(self, lane: Ints, unit: Ints, offset: Ints) -> tuple[Ints, Ints]:
        stream, number = self._interleave.locate(lane, unit)
        item = number * self.unit + offset
        position = (self.begin[stream, lane] + item) * self.counts.shape[1] + lane
        return stream, np.where(item < self.counts[stream, lane], position, -1)

    def taken(self, row: int) -> Ints:
        """As `Layout.taken`."""
        num_lanes = self.counts.shape[1]
        rounds, leftovers = self._split
        round_, rest = divmod(row, num_lanes * self.unit)
        visits = rest if self.unit == 1 else 0
        late = max(0, (round_ - rounds) * num_lanes + visits)
        visited = np.arange(num_lanes)  # lanes in the order in which rows visit them
        units = min(round_, rounds) + ((visited < visits) if round_ < rounds else 0)
        units = units + np.clip(late - leftovers[:-1], 0, np.diff(leftovers))
        lane = (visited + self.first_lane) % num_lanes
        taken = np.zeros_like(self.counts)
        taken[:, lane] = self._interleave.num_before(lane, units.astype(np.int64)) * self.unit
        return np.minimum(taken, self.counts)

    @cached_property
    def _interleave(self) -> Interleave:
        units = self.counts // self.unit if self.drop_last else -(-self.counts // self.unit)
        return Interleave(units, self.key)

    @cached_property
    def _split(self) -> tuple[int, Ints]:
        """Rounds in which every lane has a unit; (num_lanes + 1,) where each lane's leftovers begin, as visited."""
        units = np.roll(self._interleave.lane_units, -self.first_lane)
        rounds = int(units.min())
        return rounds, np.concatenate([[0], np.cumsum(units - rounds)])


@dataclass(frozen=True, eq=False)
class StratifiedLayout:
    """Every global batch holds `portions[s]` samples of stream s, in rows that a keyed hash shuffles.

    A sample goes to a row whose lane is near its own, so a rank stays near its own shards; exactly so if the portions
    are multiples of the number of lanes.

    Attributes:
        begin: (num_streams,); positions that earlier legs took.
        counts: (num_streams,); samples that this leg takes.
        portions: (num_streams,); rows of each stream in every global batch.
        num_lanes: canonical nodes.
        drop_last: whether the leg ends when a first stream cannot fill its rows, or when the last sample is taken.
        key: what the shuffle depends on.
    """

    begin: Ints
    counts: Ints
    portions: Ints
    num_lanes: int
    drop_last: bool
    key: int

    @cached_property
    def num_rows(self) -> int:
        """As `Layout.num_rows`."""
        return self.num_batches * int(self.portions.sum())

    @cached_property
    def num_batches(self) -> int:
        """As `Layout.num_batches`."""
        used = self.portions > 0
        counts, portions = self.counts[used], self.portions[used]
        batches = (counts // portions).min(initial=2**62) if self.drop_last else (-(-counts // portions)).max(initial=0)
        return int(batches) if used.any() else 0

    def batch_start(self, batch: int) -> int:
        """As `Layout.batch_start`."""
        return batch * int(self.portions.sum())

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """As `Layout.locate`."""
        batch, slot = np.divmod(row, int(self.portions.sum()))
        streams, positions = np.zeros_like(row), np.full_like(row, -1)
        for wanted in sorted(set(batch.tolist())):
            rows = batch == wanted
            of_slot = self._batch(wanted)
            streams[rows], positions[rows] = (values[slot[rows]] for values in of_slot)
        return streams, positions

    def _batch(self, batch: int) -> tuple[Ints, Ints]:
        """Stream and position of every row of a global batch."""
        stream = np.repeat(np.arange(len(self.portions)), self.portions)
        within = np.arange(len(stream)) - (np.cumsum(self.portions) - self.portions)[stream]
        taken = batch * self.portions[stream] + within
        position = self.begin[stream] + taken
        order = np.lexsort((mix(self.key, _SLOT, batch, stream, within), position % self.num_lanes))
        slots = np.argsort(np.arange(len(stream)) % self.num_lanes, kind="stable")
        streams, positions = np.empty_like(stream), np.empty_like(stream)
        streams[slots] = stream[order]
        positions[slots] = np.where(taken < self.counts[stream], position, -1)[order]
        return streams, positions

    def taken(self, row: int) -> Ints:
        """As `Layout.taken`."""
        batch = row // max(1, int(self.portions.sum()))  # 0 where no stream holds a sample
        return np.minimum(batch * self.portions, self.counts)[:, None]


@dataclass(frozen=True, eq=False)
class OwnBatchLayout:
    """Every global batch comes from one stream, and has that stream's own size.

    Attributes:
        begin: (num_streams,); positions that earlier legs took.
        counts: (num_streams,); samples that this leg takes.
        batch_sizes: (num_streams,); rows of a global batch of each stream.
        drop_last: whether samples that fill no batch are left out.
        key: what the shuffle depends on.
    """

    begin: Ints
    counts: Ints
    batch_sizes: Ints
    drop_last: bool
    key: int

    @cached_property
    def num_rows(self) -> int:
        """As `Layout.num_rows`."""
        return int(self._interleave.counts[:, 0] @ self.batch_sizes)

    @cached_property
    def num_batches(self) -> int:
        """As `Layout.num_batches`."""
        return int(self._interleave.counts.sum())

    def batch_start(self, batch: int) -> int:
        """As `Layout.batch_start`."""
        return int(self._starts(np.array([batch]))[0])

    def locate(self, row: Ints) -> tuple[Ints, Ints]:
        """As `Layout.locate`."""
        streams, positions = np.zeros_like(row), np.full_like(row, -1)
        inside = row < self.num_rows
        batch = self._batch_of(row[inside])
        stream, number = self._interleave.locate(np.zeros_like(batch), batch)
        taken = number * self.batch_sizes[stream] + row[inside] - self._starts(batch)
        streams[inside] = stream
        positions[inside] = np.where(taken < self.counts[stream], self.begin[stream] + taken, -1)
        return streams, positions

    def taken(self, row: int) -> Ints:
        """As `Layout.taken`."""
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
        """Batch that holds each row, or the number of batches: a binary search, since batches differ in size."""
        low, high = np.zeros_like(row), np.full_like(row, self.num_batches)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._starts(middle) <= row
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low
