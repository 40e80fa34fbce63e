"""Answers questions about a run: when a key was seen, what a batch had, and how much was delivered of what."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, NotFoundError
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.streaming.asked.asked_run import AskedRun
from headrace.streaming.asked.delivered import DeliveredRows
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING
from headrace.streaming.run.epoch_reader import EpochReader
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.shards.indexed_tars import WrittenIndexes
from headrace.streaming.shards.shard_set import SnapshotShards
from headrace.streaming.shards.view_shards import ViewShards
from headrace.streaming.shards.window_shards import WindowShards, numbered
from headrace.streaming.world import ALONE

MOST_INDEXES = 4096
"""Shards whose indexes are read for exact hours; of more shards, the mean lengths in the table of shards count."""

MOST_SAMPLES = 1 << 22
"""Samples up to which this is so, as well."""

_ORIGIN = "headrace"
_SET, _STREAM, _SPLIT = "metadata", "stream", "split"

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One delivery of a sample: epoch, global batch, row of the epoch, and the stream that gave it."""

    epoch: int
    step: int
    row: int
    stream: str


@dataclass(frozen=True, slots=True)
class AskedRow:
    """A row of a batch.

    Attributes:
        row: its number in the epoch.
        key: key of its sample; empty in a padding row.
        stream: name of its stream.
        shard: path of its shard.
        text: the entry `text` of its metadata; None without one.
        source: path of the recording that it was made from; None for other data than a build of Headrace.
        start_seconds: time at which its window begins; None for whole samples.
    """

    row: int
    key: str
    stream: str
    shard: str
    text: object = None
    source: str | None = None
    start_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class BillRow:
    """Samples and hours that were delivered of one group.

    Attributes:
        group: the names of the group: of stream and split, or a value of the column.
        samples: delivered samples; one that was delivered twice counts twice.
        hours: their stored length; None if the length of one is unknown.
    """

    group: tuple[Any, ...]
    samples: int
    hours: float | None


@dataclass(frozen=True, slots=True)
class Bill:
    """Samples and hours that were delivered, by group.

    Attributes:
        by: names of the group's parts.
        rows: the groups, the largest first.
        is_estimated: whether hours, or splits of a stream in the order `full`, are estimated from whole shards.
    """

    by: tuple[str, ...]
    rows: tuple[BillRow, ...]
    is_estimated: bool


def seen(run: AskedRun, key: str, progress: Callable[[], object] = lambda: None) -> list[Sighting]:
    """Every delivery of the sample with a key up to the state, in order. Reads indexes to find the key.

    Raises:
        NotFoundError: no stream has the key.
        ConfigError: it cannot be computed; see `AskedRun.epochs`.
    """
    readers = dict(zip(run.streams.names, run.streams.reading.readers, strict=True))
    samples = {name: found for name, reader in readers.items() if len(found := reader.samples_of([key], progress)[0])}
    if not samples:
        choosing = ", ".join(name for name, reader in readers.items() if _leaves_out(reader))
        hint = f"; it may be left out by the view, the condition or the windows of {choosing}" if choosing else ""
        raise NotFoundError(f"no stream of the state has the key {key!r}: {', '.join(readers)}{hint}")
    return [
        Sighting(epoch.epoch, step, row, name)
        for epoch in run.epochs()
        for step, row, name in sorted(
            (*place, name)
            for name, found in samples.items()
            if name in epoch.orders
            for place in epoch.rows_of(name, found)
        )
    ]


def _leaves_out(reader: StreamReader) -> bool:
    return isinstance(reader.primary.shards.shards, ViewShards | WindowShards)


def batch(run: AskedRun, step: int) -> list[AskedRow]:
    """The rows of global batch `step` of the state's epoch; see `AskedRun.batch_at`. Reads the JSON of its samples."""
    asked = run.batch_at(step)
    numbers = np.array([run.streams.names.index(name) for name in asked.names], np.int32)
    held = np.flatnonzero(asked.rows.sample_ids != PADDING)
    rows = type(asked.rows)(numbers[asked.rows.stream_ids], asked.rows.sample_ids)
    reader = EpochReader(run.planner, run.streams, ALONE, run.planner.samples, None).assembler()
    plan = BatchPlan(asked.epoch, rows[held], asked.start + held, patient=False)
    made = {place: row for place, row in zip(held.tolist(), reader.rows(plan), strict=True) if row is not None}
    answer = []
    for place in range(len(rows)):
        if (row := made.get(place)) is None:
            answer.append(AskedRow(asked.start + place, "", "", ""))
            continue
        metadata = reader.sample(row, asked.epoch).get("metadata", {}) if run.streams.has_metadata else {}
        origin, stored = metadata.get(_ORIGIN), row.primary
        source = origin.get("source") if isinstance(origin, dict) else None
        name, shard = run.streams.names[int(rows.stream_ids[place])], stored.access.name(stored.shard)
        rate_hz = stored.sample_rate_hz or stored.latent_rate_hz
        start = None if row.window is None else row.window.first / rate_hz
        answer.append(AskedRow(asked.start + place, stored.key, name, shard, metadata.get("text"), source, start))
    return answer


def columns_for(by: str | None) -> tuple[tuple[str, ...], str | None]:
    """The set and the column that `by` names: `SET.COLUMN`, or one of the set `metadata`; none for other groups."""
    if by in (None, _STREAM, _SPLIT):
        return (), None
    set_name, _, column = str(by).rpartition(".")
    return (set_name or _SET,), column


def bill(run: AskedRun, by: str | None = None) -> Bill:
    """Samples and hours that were delivered up to the state.

    Args:
        run: the run, opened with the set of `columns_for(by)`.
        by: `stream`, `split`, a column as `columns_for` takes it, or None for stream and split.

    Raises:
        ConfigError: there is no such column, or it cannot be computed; see `AskedRun.epochs`.
    """
    _, column = columns_for(by)
    epochs = list(run.epochs())
    sums: dict[tuple[Any, ...], tuple[int, float]] = {}
    is_estimated = False
    for name in dict.fromkeys(name for epoch in epochs for name in epoch.taken):
        given = [epoch for epoch in epochs if name in epoch.taken]
        if name in run.streams.names:
            number = run.streams.names.index(name)
            reader = run.streams.reading.readers[number]
            amounts: Iterable[tuple[Any, int, float]]
            if column is not None:
                amounts = _by_value(reader, name, given, _Column(run.columns.reading.readers[number], column))
            elif _is_small(reader):
                amounts = _by_split(reader, name, given)
            else:
                amounts, is_estimated = _by_shard(reader, name, given), True
        else:  # it has left the mixture, and the state does not say what it read
            amounts = [(None, sum(epoch.num_samples(name) for epoch in given), np.nan)]
        for label, samples, seconds in amounts:
            group = {None: (name, label), _STREAM: (name,)}.get(by, (label,))
            before = sums.get(group, (0, 0.0))
            sums[group] = before[0] + samples, before[1] + seconds
    rows = [
        BillRow(group, samples, None if math.isnan(seconds) else seconds / 3600)
        for group, (samples, seconds) in sums.items()
    ]
    parts = (_STREAM, _SPLIT) if by is None else (by,)
    return Bill(parts, tuple(sorted(rows, key=lambda row: (-row.samples, str(row.group)))), is_estimated)


def _is_small(reader: StreamReader) -> bool:
    """Whether all indexes of a stream are read: there are few, or there is no table with the lengths of shards."""
    shards = reader.primary.shards
    has_table = isinstance(shards.shards, SnapshotShards | ViewShards)
    if not has_table or isinstance(shards.load_index, WrittenIndexes):
        return True
    return len(shards) <= MOST_INDEXES and shards.num_samples <= MOST_SAMPLES


class _Delivered(NamedTuple):
    """The delivered samples of a stream, in storage order, each array (n,): their places, deliveries and seconds."""

    shards: Ints
    rows: Ints
    counts: Ints
    seconds: Floats

    @classmethod
    def of(cls, reader: StreamReader, name: str, epochs: Sequence[DeliveredRows]) -> "_Delivered":
        none = np.zeros(reader.primary.shards.num_samples, np.int64)
        counts = sum((epoch.sample_counts(name) for epoch in epochs), none)
        samples = np.flatnonzero(counts)
        return cls(*reader.find(samples), counts[samples], _seconds(reader, samples) * counts[samples])


class _Column:
    """A column of a stream, by the names of its shards."""

    def __init__(self, reader: StreamReader, name: str) -> None:
        shards = reader.primary.shards
        self._reader, self._name, self._uri = reader, name, shards.storage.uri
        self._numbers = {shards.shards.name(number): number for number in range(len(shards))}

    def grouped(self, shard: str) -> tuple[list[Any], NDArray[np.int64]]:
        """See `ColumnReader.grouped`. Raises `ConfigError` for a tar that came after the columns."""
        assert self._reader.columns is not None
        if shard not in self._numbers:
            raise ConfigError(
                f"{self._uri}/{shard}: came after the columns of its tars: run `headrace index --columns` again"
            )
        return self._reader.columns.grouped(self._numbers[shard], self._name)


def _by_split(
    reader: StreamReader, name: str, epochs: Sequence[DeliveredRows]
) -> Iterator[tuple[str | None, int, float]]:
    """Split, deliveries and their seconds, for each split."""
    found = _Delivered.of(reader, name, epochs)
    yield from _summed(_splits(reader)[found.shards], found.counts, found.seconds)


def _by_value(
    reader: StreamReader, name: str, epochs: Sequence[DeliveredRows], column: _Column
) -> Iterator[tuple[Any, int, float]]:
    """Value of the column, deliveries and their seconds, for each value of each shard."""
    found = _Delivered.of(reader, name, epochs)
    bounds = np.searchsorted(found.shards, np.arange(reader.locator.num_shards + 1))
    for shard in np.unique(found.shards).tolist():
        part = slice(bounds[shard], bounds[shard + 1])
        values, groups = column.grouped(reader.primary.shards.shards.name(shard))
        own = groups[found.rows[part]]
        counts, seconds = np.bincount(own, found.counts[part]), np.bincount(own, found.seconds[part])
        for value, count, length in zip(values, counts.tolist(), seconds.tolist(), strict=False):
            if count:  # values after the last one that was delivered have no sums
                yield json.dumps(value) if isinstance(value, list | dict) else value, int(count), length


def _by_shard(
    reader: StreamReader, name: str, epochs: Sequence[DeliveredRows]
) -> Iterator[tuple[str | None, int, float]]:
    """Split, deliveries and their seconds by the mean lengths of the shards, for each split."""
    counts = sum((epoch.shard_counts(name) for epoch in epochs), np.zeros(reader.locator.num_shards, np.int64))
    table, rows = _table(reader)
    snapshot = read_snapshot(reader.primary.shards.storage, reader.primary.shards.identity.snapshot).snapshot
    frames = np.bincount(table.split, weights=table.num_frames, minlength=len(table.splits))
    totals = np.array([snapshot.splits[split].seconds for split in table.splits])
    per_frame = (totals / np.maximum(frames, 1))[table.split[rows]]
    means = table.num_frames[rows] * per_frame / np.maximum(table.num_samples[rows], 1)
    yield from _summed(_splits(reader), counts, counts * means)


def _seconds(reader: StreamReader, samples: Ints) -> Floats:
    """Stored length of each sample; NaN where the index does not know it."""
    frames, (audio, latents) = reader.lengths(samples), reader.rates(samples)
    rates = np.where(audio > 0, audio, latents)
    return np.where((frames >= 0) & (rates > 0), frames / np.where(rates > 0, rates, 1), np.nan)


def _table(reader: StreamReader) -> tuple[ShardTable, Ints]:
    """The table of shards of a snapshot, and the row of each of the stream's shards in it."""
    own = reader.primary.shards.shards
    chosen: list[Ints] = []
    while isinstance(own, ViewShards | WindowShards):
        chosen.insert(0, own.chosen)
        own = own.whole
    assert isinstance(own, SnapshotShards)
    rows = np.arange(own.rows.start, own.rows.stop)
    for part in chosen:
        rows = rows[part]
    return own.table, rows


def _splits(reader: StreamReader) -> NDArray[np.object_]:
    """Split of each shard; that of the stream for plain tars."""
    shards = reader.primary.shards
    if numbered(shards.shards) is None:
        return np.full(len(shards), shards.identity.split, object)
    table, rows = _table(reader)
    return np.array(table.splits, object)[table.split[rows]]


def _summed(labels: NDArray[np.object_], counts: Ints, seconds: Floats) -> Iterator[tuple[str | None, int, float]]:
    """Sums by label, without labels that nothing was delivered of."""
    for label in dict.fromkeys(labels.tolist()):
        chosen = labels == label
        if total := int(counts[chosen].sum()):
            yield label, total, float(seconds[chosen].sum())
