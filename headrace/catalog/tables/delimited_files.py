"""Reads a CSV or TSV file in pieces. The cells are text; `headrace.catalog.tables.cell_types` finds their types.

The file is parsed once. Pieces that do not fit in memory are kept in a temporary file.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.cell_types import TypeFinder, checked_lists, converted
from headrace.catalog.tables.declared_types import DTYPES, check_cells
from headrace.catalog.tables.delimited_rows import Dialect, header_and_rows
from headrace.catalog.tables.json_cells import JsonCells, decoded
from headrace.catalog.tables.row_origins import LINE
from headrace.config.tables import ColumnType
from headrace.errors import ConfigError

_PIECE_ROWS = 10_000
_PIECE_BYTES = 8 << 20
_CELL_BYTES = 64  # of a Python string, besides its characters


@dataclass(frozen=True, slots=True)
class DelimitedTable:
    """A `MetadataTable` that was read from a file of text. A column without any value has the type null.

    Attributes:
        schema: names and types of the columns.
        pieces: the rows in order, as text, with a column `LINE`.
        json: names of the columns whose cells are JSON.
    """

    schema: pl.Schema
    pieces: PartTables = field(repr=False)
    json: Collection[str] = ()
    unit: str = "line"

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return (rows for rows, _ in self.numbered())

    def numbered(self) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """See `NumberedTable`."""
        for piece in self.pieces:
            columns = [self._values(piece[name], dtype) for name, dtype in self.schema.items()]
            yield pl.DataFrame(columns), piece[LINE]

    def cells(self, column: str) -> Iterator[pl.Series]:
        """A column as text, some rows at a time."""
        return (piece[column] for piece in self.pieces)

    def _values(self, cells: pl.Series, dtype: pl.DataType) -> pl.Series:
        return decoded(cells, dtype) if cells.name in self.json else converted(cells, dtype)


def read_delimited(
    file: Path, name: str, texts: Sequence[str], dialect: Dialect, types: Mapping[str, ColumnType]
) -> DelimitedTable:
    """Read a table.

    Args:
        file: the file, in UTF-8.
        name: name of the file in error messages.
        texts: columns that are text whatever their cells are.
        dialect: how cells are written.
        types: column of the file → its declared type.

    Raises:
        ConfigError: the file is not valid, or a cell does not fit the type of its column; the message names the line if
            possible.
        UnicodeDecodeError: it is not UTF-8.
        OSError: it cannot be read.
    """
    pieces = PartTables()
    with file.open(encoding="utf-8-sig", newline="") as lines:
        header, rows = header_and_rows(lines, name, dialect)
        _check_header(header, name)
        types = {column: kind for column, kind in types.items() if column in header}
        finders = {column: TypeFinder() for column in header if column not in texts and column not in types}
        objects = {column: JsonCells(name, column, kind) for column, kind in types.items() if kind.is_json}
        for numbers, cells in _in_pieces(rows):
            piece = pl.DataFrame(list(zip(*cells, strict=True)), dict.fromkeys(header, pl.String), orient="col")
            for column, finder in finders.items():
                finder.add(piece[column])
            for column, kind in types.items():
                check_cells(piece[column], kind, f"{name}, line", numbers)
            plain = (found.plain_cells(piece[column], numbers) for column, found in objects.items())
            pieces.append(piece.with_columns(*plain, pl.Series(LINE, numbers)))
    found = {column: pl.Null() if finder.is_empty else finder.dtype for column, finder in finders.items()}
    for column, dtype in found.items():
        if isinstance(dtype, pl.List):
            found[column] = checked_lists((piece[column] for piece in pieces), dtype)
    found |= {column: DTYPES[kind] for column, kind in types.items() if kind in DTYPES}
    found |= {column: cells.dtype() for column, cells in objects.items()}
    return DelimitedTable(
        pl.Schema({column: found.get(column, pl.String()) for column in header}), pieces, tuple(objects)
    )


def _in_pieces(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Rows with their lines, some at a time, so that no list of all rows is made."""
    numbers: list[int] = []
    piece: list[list[str]] = []
    num_bytes = 0
    for line, row in rows:
        numbers.append(line)
        piece.append(row)
        num_bytes += sum(map(len, row)) + _CELL_BYTES * len(row)
        if len(piece) >= _PIECE_ROWS or num_bytes >= _PIECE_BYTES:
            yield numbers, piece
            numbers, piece, num_bytes = [], [], 0
    if piece:
        yield numbers, piece


def _check_header(header: Sequence[str], name: str) -> None:
    unnamed = [number for number, column in enumerate(header, 1) if not column]
    if unnamed:
        hint = "pandas writes one for its index: use to_csv(…, index=False)"
        raise ConfigError(f"{name}: column {unnamed[0]} has no name ({hint})")
    if twice := sorted({column for column in header if header.count(column) > 1}):
        raise ConfigError(f"{name}: two columns are named {twice[0]!r}")
