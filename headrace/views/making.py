"""Makes the counts of a view from the columns of an output, partition by partition.

Without balance, memory is that of one partition. With balance, the chosen samples of all partitions are held with a
digest of their key and their group: 28 bytes each, besides the distinct values of the column.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headrace.errors import FormatError
from headrace.format.beside.column_sets import ColumnSet
from headrace.format.beside.column_table import Column, ColumnTable
from headrace.format.beside.view_files import partitions_of
from headrace.format.beside.views import Balance, ColumnsOrigin, PartitionCounts, ViewDefinition
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.ordered import TaskThreads, map_in_order
from headrace.stores.refetch import is_local
from headrace.views.balance import Balancing, counts_of_times, key_digests
from headrace.views.definitions import columns_of_counts, sets_of
from headrace.views.expression import Condition, series
from headrace.views.names import ColumnNames, MeantColumn

_ROWS_AT_ONCE = 1 << 16
_FILES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ViewData:
    """Sources of a view.

    Attributes:
        audio: the audio snapshot.
        table: its table of shards.
        sets: the sets of columns that fit it, by name.
    """

    audio: NumberedSnapshot
    table: ShardTable
    sets: Mapping[str, ColumnSet]

    @property
    def names(self) -> ColumnNames:
        """The columns that a view can name."""
        return ColumnNames({name: found.specs for name, found in self.sets.items()})


class ViewMaking:
    """The making of one view. Nothing but names and types is read before `parts`."""

    def __init__(self, definition: ViewDefinition, data: ViewData) -> None:
        """Parse the definition.

        Raises:
            ConfigError: the condition or the column of the balance is not valid.
        """
        self._data = data
        self._balance = definition.balance
        self._condition = Condition.of("true" if definition.where is None else definition.where, data.names)
        self._times = None if definition.times is None else Condition.of(definition.times, data.names, "times")
        self._extra = (
            *columns_of_counts(definition, data.names),
            *(() if self._times is None else self._times.columns),
        )
        self._sets = sets_of(definition, data.names)

    @property
    def columns(self) -> tuple[ColumnsOrigin, ...]:
        """The columns that the definition reads, by set."""
        snapshots = {name: self._data.sets[name].snapshot for name in self._sets}
        return tuple(ColumnsOrigin(name, found.number, found.snapshot.fingerprint) for name, found in snapshots.items())

    def parts(self) -> Iterator[PartitionCounts]:
        """The counts of each partition of the table, in order.

        Raises:
            ConfigError: samples would come too often, or the condition fails on a value.
            FormatError: columns are damaged, or do not fit the shards.
        """
        if self._times is not None:
            return self._repeated(self._times)
        return self._filtered() if self._balance is None else self._balanced(self._balance)

    def _repeated(self, times: Condition) -> Iterator[PartitionCounts]:
        for partition, rows in partitions_of(self._data.table):
            counts = [np.zeros(0, np.uint16)]
            for chunk in self._chunks(rows):
                keys, *columns = chunk.extra
                found = np.zeros(len(chunk.mask), np.uint16)
                names, wanted = keys.to_list(), times.numbers(columns, len(keys))
                found[chunk.mask] = counts_of_times(wanted, key_digests(names)[:, 0], names)
                counts.append(found)
            yield PartitionCounts(partition, self._data.table.num_samples[rows], np.concatenate(counts))

    def _filtered(self) -> Iterator[PartitionCounts]:
        for partition, rows in partitions_of(self._data.table):
            masks = [chunk.mask for chunk in self._chunks(rows)]
            counts = np.concatenate([np.zeros(0, np.bool_), *masks]).view(np.uint8)
            yield PartitionCounts(partition, self._data.table.num_samples[rows], counts)

    def _balanced(self, balance: Balance) -> Iterator[PartitionCounts]:
        chosen = _Chosen()
        base = 0
        for _, rows in partitions_of(self._data.table):
            for chunk in self._chunks(rows):
                by, keys = (column.to_list() for column in chunk.extra)
                chosen.add(base + np.flatnonzero(chunk.mask), by, keys)
                base += len(chunk.mask)
        places, counts = chosen.balanced(balance)
        stop = 0
        for partition, rows in partitions_of(self._data.table):
            sizes = self._data.table.num_samples[rows]
            start, stop = stop, stop + int(sizes.sum(dtype=np.int64))
            first, last = np.searchsorted(places, [start, stop])
            found = np.zeros(stop - start, np.uint8)
            found[places[first:last] - start] = counts[first:last]
            yield PartitionCounts(partition, sizes, found)

    def _chunks(self, rows: slice) -> Iterator["_Chunk"]:
        """The samples of a partition, some shards at a time."""
        table = self._data.table
        shards = range(rows.start, rows.stop)
        ends = np.cumsum(table.num_samples[rows], dtype=np.int64) // _ROWS_AT_ONCE
        for _, group in groupby(shards, lambda shard: int(ends[shard - rows.start])):
            numbers = list(group)
            wanted = (*self._condition.columns, *self._extra)
            columns = self._columns(numbers, wanted)
            size = int(table.num_samples[numbers].sum(dtype=np.int64))
            split = len(self._condition.columns)
            mask = self._condition.mask(columns[:split], size)
            extra = [series(found).filter(mask) for found in columns[split:]]
            yield _Chunk(mask, tuple(extra))

    def _columns(self, shards: Sequence[int], wanted: Sequence[MeantColumn]) -> list[list[Column]]:
        """The values of columns for some shards of the table."""
        used = sorted({column.set for column in wanted})
        tables = {name: list(self._read(name, shards)) for name in used}
        return [
            [table.column(column.spec.name, is_fact=column.spec.is_fact) for table in tables[column.set]]
            for column in wanted
        ]

    def _read(self, name: str, shards: Sequence[int]) -> Iterator[ColumnTable]:
        found, table = self._data.sets[name], self._data.table
        names = [table.name(shard) for shard in shards]
        if is_local(found.storage):
            read: Iterable[ColumnTable] = map(found.read, names)
            yield from self._checked(name, read, shards)
            return
        with TaskThreads(_FILES_AT_ONCE, "columns") as pool:
            yield from self._checked(name, map_in_order(pool, found.read, names, window=2 * _FILES_AT_ONCE), shards)

    def _checked(self, name: str, read: Iterable[ColumnTable], shards: Sequence[int]) -> Iterator[ColumnTable]:
        """Raise `FormatError` if a file has not one row for each sample of its shard."""
        table = self._data.table
        for shard, columns in zip(shards, read, strict=True):
            if len(columns) != table.num_samples[shard]:
                raise FormatError(
                    f"columns {name}: {len(columns)} rows for the {table.num_samples[shard]} samples of "
                    f"{table.name(shard)}; build the columns again"
                )
            yield columns


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some samples: whether each is chosen, and values of the chosen ones."""

    mask: NDArray[np.bool_]
    extra: tuple[pl.Series, ...]


@dataclass(slots=True)
class _Chosen:
    """The chosen samples of all partitions, for balance."""

    places: list[NDArray[np.int64]] = field(default_factory=list)
    groups: list[NDArray[np.int32]] = field(default_factory=list)
    digests: list[NDArray[np.uint64]] = field(default_factory=list)
    numbers: dict[object, int] = field(default_factory=dict)  # of each group, by its value

    def add(self, places: NDArray[np.int64], values: Sequence[object], keys: Sequence[object]) -> None:
        """Add samples: their places in the snapshot, the values that are their groups, and their keys."""
        numbers = self.numbers
        self.places.append(places)
        self.groups.append(np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int32))
        self.digests.append(key_digests([str(key) for key in keys]))

    def balanced(self, balance: Balance) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Place and count of each sample, by place."""
        places = np.concatenate([np.zeros(0, np.int64), *self.places])
        groups = np.concatenate([np.zeros(0, np.int32), *self.groups]).astype(np.int64)
        digests = np.concatenate([np.zeros((0, 2), np.uint64), *self.digests])
        sizes = np.bincount(groups, minlength=len(self.numbers))
        balancing = Balancing.of(balance, sizes, list(self.numbers))
        return places, balancing.counts(groups, digests)
