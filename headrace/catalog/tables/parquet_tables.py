"""Reads the Parquet table of a user, some rows at a time, and checks the types that are declared for its columns."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl

from headrace.catalog.tables.cell_types import converted
from headrace.catalog.tables.column_casts import with_plain_texts
from headrace.catalog.tables.declared_types import DTYPES, check_values
from headrace.catalog.tables.json_cells import JsonCells, decoded
from headrace.config.tables import ColumnType
from headrace.errors import ConfigError

BATCH_ROWS = 50_000
"""Rows of a batch of a table, at most."""

_FIRST_ROWS = 1000
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A `MetadataTable` that is read from a Parquet file, some rows at a time.

    Attributes:
        schema: names and types of the columns.
        file: the file.
        name: its name in error messages.
    """

    schema: pl.Schema
    file: Path | BinaryIO
    name: str

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time. Raises `ConfigError` if they cannot be read."""
        rows = pl.scan_parquet(self.file, low_memory=True, glob=False)
        start, size = 0, min(_FIRST_ROWS, BATCH_ROWS)
        while True:
            try:
                batch = rows.slice(start, size).collect().cast(self.schema)
            except (pl.exceptions.PolarsError, OSError) as error:
                raise ConfigError(f"{self.name}: not a readable Parquet file: {error}") from error
            if batch.is_empty():
                return
            yield batch
            start += size
            size = max(1, min(BATCH_ROWS, _BATCH_BYTES * batch.height // max(1, int(batch.estimated_size()))))


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A `MetadataTable` whose values are compared with the declared types of their columns as they are read.

    Attributes:
        schema: names and types of the columns; columns of text have their declared types.
        table: the table as it is in the file.
        types: column → its declared type.
        name: name of the table in error messages.
    """

    schema: pl.Schema
    table: ParquetTable
    types: Mapping[str, ColumnType]
    name: str

    @classmethod
    def of(cls, table: ParquetTable, types: Mapping[str, ColumnType], name: str) -> "DeclaredTable":
        """The table with these types. Columns of JSON in text are read once. Raises `ConfigError` as `batches`."""
        there = {column: kind for column, kind in types.items() if column in table.schema}
        of_text = {column: kind for column, kind in there.items() if table.schema[column] == pl.String}
        objects = {column: JsonCells(name, column, kind, "row") for column, kind in of_text.items() if kind.is_json}
        first = 1
        for batch in table.batches() if objects else ():
            for column, cells in objects.items():
                cells.plain_cells(batch[column], range(first, first + batch.height))
            first += batch.height
        found = {column: DTYPES[kind] for column, kind in of_text.items() if kind in DTYPES}
        found |= {column: cells.dtype() for column, cells in objects.items()}
        return cls(pl.Schema(table.schema | found), table, there, name)

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time. Raises `ConfigError` for a value that does not fit."""
        first = 1
        for batch in self.table.batches():
            numbers = range(first, first + batch.height)
            first += batch.height
            for column, kind in self.types.items():
                check_values(batch[column], kind, f"{self.name}, row", numbers)
            yield batch.with_columns(self._typed(batch[column], kind) for column, kind in self.types.items())

    def _typed(self, values: pl.Series, kind: ColumnType) -> pl.Series:
        if values.dtype != pl.String or kind == ColumnType.TEXT:
            return values
        dtype = self.schema[values.name]
        return decoded(values, dtype) if kind.is_json else converted(values, dtype)


def open_parquet(
    file: Path, name: str, texts: Collection[str], declared: Mapping[str, ColumnType]
) -> ParquetTable | DeclaredTable:
    """Open a Parquet file. Text that is stored as bytes, or by the numbers of a dictionary, is text.

    Args:
        file: the file.
        name: its name in error messages.
        texts: columns that become text.
        declared: column → its declared type.

    Raises:
        ConfigError: it cannot be read, or a column of JSON holds something else.
    """
    try:
        schema = pl.scan_parquet(file, glob=False).collect_schema()
        schema.to_frame()  # fails for types that no table can have, such as decimals of more than 38 digits
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{name}: not a readable Parquet file: {error}") from error
    types = {column: with_plain_texts(dtype) for column, dtype in schema.items()}
    of_text = {*texts, *(column for column, kind in declared.items() if kind == ColumnType.TEXT)}
    types |= {column: pl.String() for column in of_text if schema.get(column) == pl.Binary}
    table = ParquetTable(pl.Schema(types), file, name)
    return DeclaredTable.of(table, declared, name) if declared else table
