"""Tables that need not fit in memory: while they are small they are in memory, and else in a temporary file.

`Buckets` has rows of a table, divided by the hash of a column. `PartTables` has tables by number.

All rows with the same value of the column are in the same bucket, and stay in the order in which they were added, so
that tables that are divided by the same column can be joined bucket by bucket. A file has no name and is deleted with
its process.
"""

import contextlib
import io
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import BinaryIO

import polars as pl

from headrace.stores.temporary_room import temporary_room

NUM_BUCKETS = 256
PART_BYTES = 4 << 20
"""Bytes of a table that stay in memory before they are written, and of the tables that are joined at a time."""

_BUCKET = "\0bucket"  # no column of a user has such a name
_NOT_ASCII = r"[^\x00-\x7F]"


class _TableFile:
    """Tables in a temporary file, which is deleted with this object at the latest."""

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        weakref.finalize(self, _closed, self._file)

    def write(self, table: pl.DataFrame) -> tuple[int, int]:
        """Append a table. Returns its offset and its size in bytes.

        Raises:
            StorageError: the temporary folder is full, or cannot be written.
        """
        blob = io.BytesIO()
        table.write_ipc_stream(blob)
        with temporary_room("a table"):
            offset = self._file.seek(0, io.SEEK_END)
            self._file.write(blob.getbuffer())
            self._file.flush()
        return offset, blob.tell()

    def read(self, place: tuple[int, int]) -> pl.DataFrame:
        """The table at a place that `write` returned."""
        offset, num_bytes = place
        self._file.seek(offset)
        return pl.read_ipc_stream(io.BytesIO(self._file.read(num_bytes)))

    def close(self) -> None:
        """Delete the file, also if what it still has to write has no room."""
        _closed(self._file)


def _closed(file: BinaryIO) -> None:
    with contextlib.suppress(OSError):
        file.close()


@dataclass(slots=True)
class Buckets:
    """Rows of a table by bucket.

    Attributes:
        schema: names and types of the columns.
        most_bytes: rows of about this size are kept in memory before they are written; None to keep all.
    """

    schema: pl.Schema
    most_bytes: int | None = PART_BYTES
    _waiting: list[tuple[pl.DataFrame, pl.Series]] = field(default_factory=list)
    _num_waiting: int = 0
    _file: _TableFile | None = None
    _places: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(NUM_BUCKETS)])
    num_rows: int = 0

    @property
    def is_divided(self) -> bool:
        """Whether rows have been written to the file."""
        return self._file is not None

    def add(self, table: pl.DataFrame, numbers: pl.Series) -> None:
        """Add rows.

        Args:
            table: the rows.
            numbers: the bucket of each row, below `NUM_BUCKETS`.
        """
        if table.is_empty():
            return
        self.num_rows += table.height
        self._waiting.append((table.select(*self.schema), numbers.cast(pl.UInt8)))
        self._num_waiting += int(table.estimated_size())
        if self.most_bytes is not None and self._num_waiting >= self.most_bytes:
            self.divide()

    def divide(self) -> None:
        """Write the rows that are in memory to the file."""
        self._file = self._file or _TableFile()
        if not self._waiting:
            return
        table = pl.concat([rows.with_columns(numbers.alias(_BUCKET)) for rows, numbers in self._waiting])
        table = table.sort(_BUCKET, maintain_order=True)
        self._waiting, self._num_waiting = [], 0
        runs = table[_BUCKET].rle().struct.unnest()
        table = table.drop(_BUCKET)
        start = 0
        for length, bucket in runs.iter_rows():
            self._places[bucket].append(self._file.write(table.slice(start, length)))
            start += length

    def sizes(self) -> list[int]:
        """Bytes of each bucket in the file."""
        return [sum(length for _, length in places) for places in self._places]

    def part(self, buckets: range) -> pl.DataFrame:
        """The rows of some buckets; those of one bucket are in the order in which they were added."""
        found = [self.schema.to_frame()]
        if self._file is not None:
            found += [self._file.read(place) for bucket in buckets for place in self._places[bucket]]
        first, last = buckets.start, buckets.stop - 1
        for table, numbers in self._waiting:
            found.append(table if buckets == ALL else table.filter(numbers.is_between(first, last)))
        return pl.concat(found, rechunk=self._file is not None)

    def close(self) -> None:
        """Forget all rows."""
        self._waiting = []
        if self._file is not None:
            self._file.close()


@dataclass(slots=True)
class PartTables:
    """Tables by number: the first, or the first few, in memory, the others in a file.

    Attributes:
        most_bytes: as in `Buckets`.
        num_rows: rows of all tables.
    """

    most_bytes: int | None = PART_BYTES
    num_rows: int = 0
    _tables: list[pl.DataFrame | tuple[int, int]] = field(default_factory=list)
    _num_bytes: int = 0
    _file: _TableFile | None = None

    def append(self, table: pl.DataFrame) -> None:
        """Add the table of the next number."""
        self.num_rows += table.height
        self._num_bytes += int(table.estimated_size())
        if self.most_bytes is None or self._num_bytes < self.most_bytes or not self._tables:
            self._tables.append(table)
            return
        self._file = self._file or _TableFile()
        self._tables.append(self._file.write(table))

    def __getitem__(self, number: int) -> pl.DataFrame:
        """One of the tables."""
        table = self._tables[number]
        if isinstance(table, pl.DataFrame):
            return table
        if self._file is None:
            raise ValueError("the tables have been closed")
        return self._file.read(table)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """The tables in order."""
        return (self[number] for number in range(len(self._tables)))

    def close(self) -> None:
        """Forget all tables."""
        self._tables = []
        if self._file is not None:
            self._file.close()


ALL = range(NUM_BUCKETS)
"""All buckets."""


def bucket_of_paths(paths: pl.Series) -> pl.Series:
    """The bucket of each path. Spellings of a path that differ only in how accents are composed have one bucket."""
    return (hash_of_paths(paths) % NUM_BUCKETS).cast(pl.UInt8)


def hash_of_paths(paths: pl.Series) -> pl.Series:
    """A hash of each path, the same for spellings that differ only in how accents are composed."""
    if paths.str.contains(_NOT_ASCII).any():
        paths = paths.str.normalize("NFC")
    return paths.hash()


def bucket_of_numbers(numbers: pl.Series, count: int) -> pl.Series:
    """The bucket of each number below `count`: numbers in order share the buckets, so that no number is in two."""
    return (numbers.cast(pl.UInt64) * NUM_BUCKETS // max(1, count)).cast(pl.UInt8)


def divided_by_number(
    rows: pl.DataFrame, column: str, buckets: range, count: int
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Each number of some buckets (`bucket_of_numbers`) in order, and its rows without the number.

    Args:
        rows: the rows of these buckets, sorted by number.
        column: name of the column with the numbers.
        buckets: the buckets.
        count: how many numbers there are.
    """
    runs = rows[column].rle().struct.unnest().with_columns(start=pl.col("len").cum_sum() - pl.col("len"))
    slices = {number: (start, length) for length, number, start in runs.iter_rows()}
    rows = rows.drop(column)
    for number, bucket in enumerate(bucket_of_numbers(pl.Series(range(count), dtype=pl.UInt32), count)):
        if bucket in buckets:
            yield number, rows.slice(*slices.get(number, (0, 0)))


def parts_of(tables: Sequence[Buckets], part_bytes: int = PART_BYTES) -> list[range]:
    """Runs of buckets that are read together, so that their rows in all tables have about `part_bytes`.

    All buckets together if no table has been written. Otherwise the other tables are written too.
    """
    if not any(table.is_divided for table in tables):
        return [ALL]
    for table in tables:
        if table.most_bytes is not None:
            table.divide()
    sizes = [sum(found) for found in zip(*(table.sizes() for table in tables), strict=True)]
    return list(_runs(sizes, part_bytes))


def _runs(sizes: Sequence[int], most: int) -> Iterator[range]:
    edges, total = [0], 0
    for bucket, size in enumerate(sizes):
        if total and total + size > most:
            edges.append(bucket)
            total = 0
        total += size
    yield from (range(start, stop) for start, stop in pairwise([*edges, len(sizes)]))
