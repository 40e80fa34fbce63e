"""Reads a column whose cells are JSON (`source.table.types`), by the rules for a column of JSON Lines."""

import json
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.tables.declared_types import fits, intervals_type, misfit
from headrace.catalog.tables.json_lines import as_json, has_json, plain, read_json_lines
from headrace.config.tables import ColumnType
from headrace.format.typed_json import strict_json
from headrace.stores.temporary_room import temporary_room


class JsonCells:
    """Finds the type of a column of JSON. Each piece is given to `plain_cells`; then `dtype` is its type."""

    def __init__(self, name: str, column: str, kind: ColumnType = ColumnType.JSON, unit: str = "line") -> None:
        """No cells yet.

        Args:
            name: name of the table in error messages.
            column: name of the column.
            kind: its declared type.
            unit: what the numbers of cells are: `line` or `row`.
        """
        self._name, self._column, self._kind, self._unit = name, column, kind, unit
        with temporary_room("a table"):
            self._file = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - closed by the finalizer
        weakref.finalize(self, self._file.close)
        self._line = 1

    def plain_cells(self, cells: pl.Series, numbers: Sequence[int]) -> pl.Series:
        """A piece of the column (text) in the form that `decoded` reads.

        Args:
            cells: the cells; empty ones are null.
            numbers: the line, or row, of each cell, in ascending order.

        Raises:
            ConfigError: a cell is not JSON, or not of the declared type.
            StorageError: the temporary folder is full.
        """
        found: list[str | None] = []
        with temporary_room("a table"):
            for number, cell in zip(numbers, cells, strict=True):
                value = self._parsed(cell, number)
                # The line is that of the table, so that messages about the column name it.
                line = json.dumps({self._column: value}).encode()
                self._file.write(b"\n" * (number - self._line) + line)
                self._line = number
                found.append(None if value is None else json.dumps(plain(value)))
        return pl.Series(cells.name, found, dtype=pl.String)

    def dtype(self) -> pl.DataType:
        """The common type of all cells; null without a value. Raises `ConfigError` if they have several kinds."""
        self._file.flush()
        found: pl.DataType = pl.Null()
        if self._file.tell():
            found = read_json_lines(Path(self._file.name), self._name, ()).schema[self._column]
        return intervals_type(found) if self._kind == ColumnType.INTERVALS else found

    def _parsed(self, cell: str | None, number: int) -> Any:  # noqa: ANN401 - any value of JSON
        if not cell:
            return None
        place = f"{self._name}, {self._unit} {number}"
        try:
            value = strict_json(cell, parse_constant=_rejected)
        except ValueError as error:
            raise misfit(place, self._column, cell, self._kind) from error
        if not fits(value, self._kind):
            raise misfit(place, self._column, value, self._kind)
        return value


def decoded(cells: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The values of cells that `JsonCells.plain_cells` returned."""
    found = cells.replace("", None)
    if has_json(dtype):
        return pl.Series(cells.name, [cell and as_json(strict_json(cell)) for cell in found], dtype=dtype)
    return found.str.json_decode(dtype)


def _rejected(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
