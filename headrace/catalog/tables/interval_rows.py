"""Makes a table of the intervals in a column of another table (`source.rows`): one row for each.

Pure. The times are those of the recording, so a row that is a span itself has no such intervals.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import polars as pl

from headrace.catalog.tables.declared_types import is_intervals
from headrace.catalog.tables.metadata_files import MetadataTable, TableFiles, with_origins
from headrace.catalog.tables.row_origins import RowOrigin, TableFileName
from headrace.errors import ConfigError

_INDEX, _NUMBER = "\0index", "\0number"
_MOST_REPEATED = 20_000_000
"""Entries of a list of one row that its intervals get together: hundreds of bytes each in memory, and JSON in tars. An
hour of segments beside its list of words has seven million."""


@dataclass(frozen=True, slots=True)
class IntervalRows:
    """A `MetadataTable` with a row for each interval in a column of another one. Rows without intervals are left out.

    Rows that belong to no row of a corpus stay as they are.

    Attributes:
        table: the other table.
        column: its column of intervals.
        schema: names and types of the columns: those of the table, except the column, then those of the intervals,
            which take the place of columns of the table with the same names.
    """

    table: MetadataTable
    column: str
    schema: pl.Schema

    @classmethod
    def of(cls, table: MetadataTable, column: str, path: str, spans: Collection[str]) -> "IntervalRows":
        """The rows of a column.

        Args:
            table: the table.
            column: its column of intervals.
            path: its column with the paths of recordings.
            spans: names of columns that make a row a span.

        Raises:
            ConfigError: there is no such column of intervals, or the rows are spans.
        """
        names = ", ".join(table.schema)
        if column not in table.schema or not is_intervals(table.schema[column]):
            raise ConfigError(f"source.rows: there is no column {column!r} of intervals; the columns are {names}")
        if found := [name for name in spans if name in table.schema]:
            raise ConfigError(
                f"source.rows: the rows have a column {found[0]!r}, and intervals are spans of whole recordings; "
                "rename the column, or take it out"
            )
        own = table.schema[column].inner.to_schema()  # type: ignore[attr-defined]  # of a list of objects
        if path in own:
            raise ConfigError(f"source.rows: the intervals have a name {path!r}, which is that of paths; rename it")
        others = {name: dtype for name, dtype in table.schema.items() if name != column and name not in own}
        return cls(table, column, pl.Schema({**others, **own}))

    @property
    def intervals(self) -> tuple[str, ...]:
        """Names of what the intervals have."""
        return tuple(self.table.schema[self.column].inner.to_schema())  # type: ignore[attr-defined]  # see `of`

    @property
    def files(self) -> tuple[tuple[TableFileName, MetadataTable], ...]:
        """The files of the table, as of `TableFiles`."""
        return self.table.files if isinstance(self.table, TableFiles) else ()

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return (rows for rows, _ in self.with_origins())

    def with_origins(self) -> Iterator[tuple[pl.DataFrame, RowOrigin | None]]:
        """The rows in order, some at a time, and where their rows come from."""
        for batch, origin in with_origins(self.table):
            if origin is not None and origin.faults is not None:
                others = batch.select(name for name in self.schema if name not in self.intervals)
                yield pl.concat([self.schema.to_frame(), others], how="diagonal"), origin
                continue
            self._check_lists(batch)
            numbers = pl.int_ranges(1, pl.col(self.column).list.len() + 1).alias(_NUMBER)
            numbered = batch.with_row_index(_INDEX).with_columns(numbers)
            exploded = numbered.explode(self.column, _NUMBER).filter(pl.col(self.column).is_not_null())
            index = exploded[_INDEX]
            own = exploded[self.column].struct.unnest()
            rows = exploded.select(name for name in self.schema if name not in own.columns)
            intervals = exploded[_NUMBER]
            places = origin and replace(origin, lines=origin.lines.gather(index), intervals=intervals)
            yield rows.hstack(own.get_columns()).select(self.schema.keys()), places

    def _check_lists(self, batch: pl.DataFrame) -> None:
        """Raise `ConfigError` if the rows of a recording repeat a list of it so often that tables and tars explode."""
        counts = batch[self.column].list.len()
        for name, dtype in batch.schema.items():
            if name in {self.column, *self.intervals} or not isinstance(dtype, pl.List):
                continue
            lengths = batch[name].list.len()
            row = (counts.cast(pl.UInt64) * lengths).arg_max()
            if row is not None and counts[row] * lengths[row] > _MOST_REPEATED:
                raise ConfigError(
                    f"source.rows: each of the {counts[row]} rows of a recording would repeat the {lengths[row]} "
                    f"entries of its column {name!r}; take the column out, or give each interval its part of it"
                )
