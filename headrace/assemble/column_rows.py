"""Prepares the rows of a table of columns for its join to the samples, in parts that fit in memory.

The rows and the names that they may have are divided by the hash of the name (`headrace.catalog.tables.buckets`), so
that all rows with one name, and the samples or recordings of that name, are in one part.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from headrace.catalog.rows.metadata_columns import check_types, json_values
from headrace.catalog.rows.path_spelling import spelled_as_files, tidy_paths
from headrace.catalog.tables.buckets import PART_BYTES, Buckets, bucket_of_paths, parts_of
from headrace.catalog.tables.metadata_files import MetadataTable
from headrace.config.content import ColumnSetConfig
from headrace.errors import ConfigError

ROW, PARTITION = "\0row", "\0partition"  # no column of a user has such a name
"""Names of the columns with the number of a row in its table, from 1, and with the number of a partition."""

_RESERVED = "headrace"
_SHOWN = 5
_INT64_MAX = (1 << 63) - 1
_WIDE = (pl.UInt64, pl.Int128)


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """A part of the rows of a table.

    Attributes:
        joined: rows that match, under the numbers of their partitions (`PARTITION`): a path may be in several.
        unmatched: rows that match nothing, with their numbers (`ROW`).
        num_merged: rows that were left out because they repeat another row.
    """

    joined: pl.DataFrame
    unmatched: pl.DataFrame
    num_merged: int


@dataclass(slots=True)
class TableRows:
    """The rows of a table: each name once, columns sorted by name after the joined one.

    Attributes:
        on: what the rows are joined by, `key` or `path`.
        column: the joined column.
        schema: the joined column and the others, without integers that are wider than they need to be.
        root: the source's root; paths that begin with it are made relative.
        num_rows: number of rows.
        nameless: numbers of the rows without a name.
    """

    on: str
    column: str
    schema: pl.Schema
    part_bytes: int
    root: str = ""
    num_rows: int = 0
    nameless: list[int] = field(default_factory=list)
    _rows: Buckets = field(init=False)
    _names: Buckets = field(init=False)

    def __post_init__(self) -> None:
        """No rows yet."""
        self._rows = Buckets(pl.Schema({**self.schema, ROW: pl.Int64()}), self.part_bytes)
        self._names = Buckets(pl.Schema({self.column: pl.String(), PARTITION: pl.UInt32()}), self.part_bytes)

    @classmethod
    def of(
        cls, table: MetadataTable, entry: ColumnSetConfig, part_bytes: int = PART_BYTES, root: str = ""
    ) -> "TableRows":
        """Read a table.

        Args:
            table: the table of a set of columns.
            entry: the set.
            part_bytes: about this much is kept in memory of each table, and joined at a time.
            root: the source's root, of paths.

        Raises:
            ConfigError: it has neither a column `key` nor `path`, or none besides, or one that cannot be stored.
        """
        on, column = _joined_column(table.schema, entry)
        if _RESERVED in table.schema:
            raise ConfigError(
                f"the column {_RESERVED!r} has the name of the provenance in each sample's JSON; rename it"
            )
        check_types(table.schema.to_frame())
        others = sorted(name for name in table.schema if name != column)
        if not others:
            raise ConfigError(f"the table has no column but {column!r}; add the columns to join")
        rows = cls(on, column, pl.Schema({name: table.schema[name] for name in (column, *others)}), part_bytes, root)
        narrow = {name for name in others if table.schema[name] in _WIDE}
        for batch in table.batches():
            rows._add(batch)
            narrow -= {name for name in narrow if not _fits_int64(batch[name])}
        rows.schema = pl.Schema({**rows.schema, **dict.fromkeys(narrow, pl.Int64())})
        return rows

    def add_names(self, names: pl.Series, partition: int) -> None:
        """Add keys or paths that rows may have, each once.

        Args:
            names: those of the samples or recordings of one partition.
            partition: its number.
        """
        table = names.alias(self.column).to_frame().with_columns(pl.lit(partition, pl.UInt32).alias(PARTITION))
        self._names.add(table, bucket_of_paths(table[self.column]))

    def matched(self) -> Iterator[MatchedRows]:
        """The join, part by part. At the end it raises `ConfigError` if rows have the same name and differ."""
        differing = _Differing(self.column)
        for part in parts_of([self._rows, self._names], self.part_bytes):
            names = self._names.part(part)
            rows = self._rows.part(part).cast(pl.Schema({**self.schema, ROW: pl.Int64()}))
            if self.on == "path":
                rows = rows.with_columns(spelled_as_files(rows[self.column], names[self.column].unique()))
            differing.add(rows)
            merged = rows.filter(pl.col(self.column).is_first_distinct())
            joined = merged.drop(ROW).join(names, on=self.column, how="inner")
            unmatched = merged.join(names, on=self.column, how="anti")
            yield MatchedRows(joined, unmatched, rows.height - merged.height)
        differing.check()

    def close(self) -> None:
        """Delete the temporary files."""
        self._rows.close()
        self._names.close()

    def _add(self, batch: pl.DataFrame) -> None:
        first = self.num_rows + 1
        self.num_rows += batch.height
        table = batch.select(*self.schema, pl.int_range(first, first + pl.len()).alias(ROW))
        if self.on == "path":
            table = table.with_columns(tidy_paths(table[self.column], self.root))
        is_named = pl.col(self.column).is_not_null() & (pl.col(self.column) != "")
        self.nameless += table.filter(~is_named)[ROW].to_list()
        named = table.filter(is_named)
        self._rows.add(named, bucket_of_paths(named[self.column]))


def _joined_column(names: Iterable[str], entry: ColumnSetConfig) -> tuple[str, str]:
    """Field of samples that the rows are joined by, `key` or `path`, and the column of the table that has it."""
    found = next(((on, column) for on, column in entry.joined.items() if column in names), None)
    if found is None:
        wanted, columns = " or ".join(map(repr, entry.joined.values())), ", ".join(names) or "none"
        raise ConfigError(
            f"table {entry.table.uri} has no column {wanted}; its columns: {columns}; `key` or `path` of this entry of "
            "columns names the joining column"
        )
    return found


def _fits_int64(column: pl.Series) -> bool:
    """Whether integers of a type that may be larger than 64 bits with a sign are not."""
    most, least = column.max(), column.min()
    return most is None or (int(str(most)) <= _INT64_MAX and int(str(least)) >= -_INT64_MAX - 1)


class _Differing:
    """Collects the names of all parts whose rows differ, for one message: their number, and the first few."""

    def __init__(self, on: str) -> None:
        self._on = on
        self._num_names = 0
        self._first: list[tuple[str, str]] = []

    def add(self, named: pl.DataFrame) -> None:
        """Add those of a part."""
        found = _differing_rows(named, self._on)
        self._num_names += len(found)
        self._first = sorted([*self._first, *found.items()])[:_SHOWN]

    def check(self) -> None:
        """Raise `ConfigError` if there are any."""
        if not self._num_names:
            return
        more = f" and {self._num_names - _SHOWN} more" if self._num_names > _SHOWN else ""
        listed = "; ".join(text for _, text in self._first)
        raise ConfigError(f"the table has different rows for one {self._on}: {listed}{more}; keep one row of each")


def _differing_rows(named: pl.DataFrame, on: str) -> dict[str, str]:
    """Names whose rows differ, each with the first two rows that do and what is different in them."""
    several = named.filter(pl.col(on).is_duplicated()).sort(on, ROW)
    columns = [name for name in several.columns if name not in {on, ROW}]
    values = {name: json_values(several[name]) for name in columns}
    first: dict[str, int] = {}
    differing: dict[str, str] = {}
    for row, (name, number) in enumerate(several.select(on, ROW).iter_rows()):
        start = first.setdefault(name, row)
        other = [column for column in columns if values[column][row] != values[column][start]]
        if other:
            rows = f"rows {several[ROW][start]} and {number}"
            differing.setdefault(name, f"{name!r} ({rows} differ in {', '.join(other)})")
    return differing
