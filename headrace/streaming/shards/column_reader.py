"""Reads columns of one stream's samples: a file for each shard and set, kept in memory up to a limit.

A file is found by the shard's split, bucket and sequence number. The digest of the keys says whether its rows belong to
the shard's samples. Files of a store are kept in the cache folder like indexes, and read again if they are damaged.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, FormatError, IntegrityError, NotFoundError
from headrace.format.beside.column_files import parse_columns
from headrace.format.beside.column_table import Column, ColumnTable, keys_digest
from headrace.format.indexes.index import ABSENT
from headrace.stores.refetch import read_sound
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.column_tensors import TensorColumn
from headrace.streaming.shards.joined_columns import ColumnSet, clash
from headrace.streaming.shards.window_shards import partners

_KEPT_BYTES = 256 << 20  # of all sets of a stream together: more than a shuffle block of 64 shards has


@dataclass(frozen=True, slots=True)
class _ShardColumns:
    """The wanted columns of one set for one shard."""

    joined: tuple[Column, ...]
    tensors: tuple[Column, ...]
    num_bytes: int


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """The columns of one sample.

    Attributes:
        sets: the sets of the stream.
        files: the columns of the sample's shard in each set; None where a set has none for it.
        row: the sample's row in its shard.
        fault: why the columns could not be read.
    """

    sets: tuple[ColumnSet, ...]
    files: tuple[_ShardColumns | None, ...] = ()
    row: int = 0
    fault: Exception | None = None

    def add_to(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """`metadata` with the values of the columns: None where a sample has no value.

        Raises:
            ConfigError: the sample's JSON has the name of a column.
            SampleError: the columns could not be read.
        """
        for one, found in self._pairs():
            for number, spec in enumerate(one.joined):
                if spec.name in metadata:
                    if one.only_fills:
                        continue
                    raise ConfigError(clash(spec.name, one.name, "the sample's JSON"))
                metadata[spec.name] = None if found is None else found.joined[number].value(self.row)
        return metadata

    def numbers(self) -> Iterator[tuple[TensorColumn, float | list[float]]]:
        """Each column that comes as a tensor, and its value: a number, or a list of numbers.

        Raises:
            SampleError: see `TensorColumn.number`; or the columns could not be read.
        """
        for one, found in self._pairs():
            for number, tensor in enumerate(one.tensors):
                value = None if found is None else found.tensors[number].value(self.row)
                yield tensor, tensor.number(value, one.name)

    def tensors(self) -> Iterator[TensorColumn]:
        """The columns that come as tensors, which all rows of a stream have."""
        return (tensor for one in self.sets for tensor in one.tensors)

    def _pairs(self) -> Iterator[tuple[ColumnSet, _ShardColumns | None]]:
        if self.fault is not None:
            raise type(self.fault)(str(self.fault))
        return zip(self.sets, self.files, strict=True)


class ColumnReader:
    """The columns of one stream as this process reads them; safe for threads."""

    def __init__(self, sets: Sequence[ColumnSet], primary: ShardAccess) -> None:
        """Read nothing yet.

        Args:
            sets: the sets of the stream.
            primary: the shards of its samples.
        """
        self.sets = tuple(sets)
        self._primary = primary
        self._partners = [partners(primary.shards.shards, one.shards) for one in sets]
        self._kept: OrderedDict[int, tuple[_ShardColumns | None, ...]] = OrderedDict()
        self._being_read: dict[int, threading.Lock] = {}
        self._num_bytes = 0
        self._lock = threading.Lock()

    def rows(self, shard: int, rows: Sequence[int]) -> list[ColumnRow]:
        """The columns of some rows of a shard. What is damaged or missing is an error of the rows, raised later.

        Raises:
            StorageError: a store failed.
        """
        try:
            files = self._files(shard)
        except (IntegrityError, NotFoundError, FormatError) as error:
            fault = type(error)(str(error))  # the error itself would keep its frames alive
            return [ColumnRow(self.sets, fault=fault) for _ in rows]
        return [ColumnRow(self.sets, files, row) for row in rows]

    def grouped(self, shard: int, name: str) -> tuple[list[Any], NDArray[np.int64]]:
        """The distinct values of one column for a shard (None for samples without one), and the number of each row's.

        Raises:
            ConfigError: no set has such a column.
            IntegrityError: the columns of the shard are damaged.
        """
        for one, found in zip(self.sets, self._files(shard), strict=True):
            names = [spec.name for spec in one.joined]
            if name in names:
                column = None if found is None else found.joined[names.index(name)]
                if column is None:
                    return [None], np.zeros(len(self._primary.index(shard)), np.int64)
                first_rows, groups = column.grouped()
                return column.take(first_rows), groups
        known = ", ".join(spec.name for one in self.sets for spec in one.joined)
        sets = " and ".join(one.name for one in self.sets)
        raise ConfigError(
            f"no column {name!r} in the set {sets}: its columns are {known}; write SET.COLUMN for another"
        )

    def fetch(self, shard: int) -> None:
        """Read the columns of a shard ahead of their use. Raises what is wrong with them."""
        self._files(shard)

    def is_at_hand(self, shard: int) -> bool:
        """Whether the columns of a shard are in memory."""
        return shard in self._kept

    def _files(self, shard: int) -> tuple[_ShardColumns | None, ...]:
        """The columns of a shard; threads that ask at once for the same shard read it once."""
        if (found := self._found(shard)) is not None:
            return found
        with self._lock:
            reading = self._being_read.setdefault(shard, threading.Lock())
        try:
            with reading:
                if (found := self._found(shard)) is None:
                    found = tuple(self._read(number, shard) for number in range(len(self.sets)))
                    self._keep(shard, found)
                return found
        finally:
            with self._lock:
                self._being_read.pop(shard, None)

    def _found(self, shard: int) -> tuple[_ShardColumns | None, ...] | None:
        with self._lock:
            if (found := self._kept.get(shard)) is not None:
                self._kept.move_to_end(shard)
            return found

    def _keep(self, shard: int, files: tuple[_ShardColumns | None, ...]) -> None:
        with self._lock:
            if shard not in self._kept:
                self._kept[shard] = files
                self._num_bytes += _bytes_of(files)
            while self._num_bytes > _KEPT_BYTES and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._num_bytes -= _bytes_of(gone)

    def _read(self, number: int, shard: int) -> _ShardColumns | None:
        """The columns of one set for a shard; None if the set has no file for it."""
        one, place = self.sets[number], int(self._partners[number][shard])
        if place == ABSENT:
            return None
        name = one.shards.name(place)
        table, num_bytes = self._table(one, name)
        self._check_keys(table, f"{one.storage.uri}/{name}", shard)
        joined = tuple(table.column(spec.name, is_fact=spec.is_fact) for spec in one.joined)
        numbers = [tensor.spec for tensor in one.tensors]
        tensors = tuple(table.column(spec.name, is_fact=spec.is_fact) for spec in numbers)
        return _ShardColumns(joined, tensors, num_bytes)

    def _table(self, one: ColumnSet, name: str) -> tuple[ColumnTable, int]:
        """The columns of a file, and its size; from the cache folder if the file is of a store and kept there."""
        is_kept, cache = one.storage.local_path("any") is None, self._primary.cache
        if is_kept and (blob := cache.kept_index(name)) is not None:
            try:
                return parse_columns(blob, name), len(blob)
            except FormatError:  # the kept file is damaged: read the one of the store
                pass
        table, blob = read_sound(one.storage, name, _parsed)
        if is_kept:
            cache.keep_index(name, blob)
        return table, len(blob)

    def _check_keys(self, table: ColumnTable, file: str, shard: int) -> None:
        index = self._primary.index(shard)
        if len(table) == len(index) and table.keys_sha256 == keys_digest(index.keys()):
            return
        access = self._primary
        raise IntegrityError(
            f"{file}: its {len(table)} rows are not those of the {len(index)} samples of "
            f"{access.shards.storage.uri}/{access.name(shard)}: the digests of the keys differ; build the columns "
            "again, or copy both folders again"
        )


def _parsed(blob: bytes, name: str) -> tuple[ColumnTable, bytes]:
    return parse_columns(blob, name), blob


def _bytes_of(files: tuple[_ShardColumns | None, ...]) -> int:
    return sum(found.num_bytes for found in files if found is not None)
