"""Reads a CSV or TSV file in pieces. The cells are text; `headrace.catalog.tables.cell_types` finds their types.

The file is parsed once. Pieces that do not fit in memory are kept in a temporary file.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.cell_types import TypeFinder, checked_lists, converted
from headrace.errors import ConfigError

_PIECE_ROWS = 10_000
_PIECE_BYTES = 8 << 20
_CELL_BYTES = 64  # of a Python string, besides its characters
_MAX_CELL_CHARS = 1 << 24


@dataclass(frozen=True, slots=True)
class DelimitedTable:
    """A `MetadataTable` that was read from a file of text.

    Attributes:
        schema: names and types of the columns.
        pieces: the rows in order, as text.
    """

    schema: pl.Schema
    pieces: PartTables = field(repr=False)

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        for piece in self.pieces:
            yield pl.DataFrame([converted(piece[name], dtype) for name, dtype in self.schema.items()])


def read_delimited(file: Path, name: str, texts: tuple[str, ...], delimiter: str) -> DelimitedTable:
    """Read a table.

    Args:
        file: the file, in UTF-8, with a line of column names.
        name: name of the file in error messages.
        texts: columns that are text whatever their cells are.
        delimiter: what is between cells.

    Raises:
        ConfigError: the file is not valid; the message names the line if possible.
        UnicodeDecodeError: it is not UTF-8.
        OSError: it cannot be read.
    """
    csv.field_size_limit(_MAX_CELL_CHARS)
    pieces = PartTables()
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            _check_header(header, name)
            finders = {column: TypeFinder() for column in header if column not in texts}
            for rows in _in_pieces(_whole_rows(reader, header, name)):
                piece = pl.DataFrame(list(zip(*rows, strict=True)), dict.fromkeys(header, pl.String), orient="col")
                for column, finder in finders.items():
                    finder.add(piece[column])
                pieces.append(piece)
        except csv.Error as error:
            raise ConfigError(f"{name}, line {reader.line_num}: {error}") from error
    types = {column: finders[column].dtype if column in finders else pl.String() for column in header}
    for column, dtype in types.items():
        if isinstance(dtype, pl.List):
            types[column] = checked_lists((piece[column] for piece in pieces), dtype)
    return DelimitedTable(pl.Schema(types), pieces)


def _in_pieces(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    """Rows, some at a time, so that no list of all rows is made."""
    piece: list[list[str]] = []
    num_bytes = 0
    for row in rows:
        piece.append(row)
        num_bytes += sum(map(len, row)) + _CELL_BYTES * len(row)
        if len(piece) >= _PIECE_ROWS or num_bytes >= _PIECE_BYTES:
            yield piece
            piece, num_bytes = [], 0
    if piece:
        yield piece


def _check_header(header: list[str], name: str) -> None:
    unnamed = [number for number, column in enumerate(header, 1) if not column]
    if unnamed:
        hint = "pandas writes one for its index: use to_csv(…, index=False)"
        raise ConfigError(f"{name}: column {unnamed[0]} has no name ({hint})")
    if twice := sorted({column for column in header if header.count(column) > 1}):
        raise ConfigError(f"{name}: two columns are named {twice[0]!r}")


def _whole_rows(reader: Iterator[list[str]], header: list[str], name: str) -> Iterator[list[str]]:
    for row in reader:
        if not row:  # a blank line
            continue
        if len(row) != len(header):
            line = reader.line_num  # type: ignore[attr-defined]  # csv's reader has no public type
            raise ConfigError(
                f"{name}, line {line}: {len(row)} cells, but the header has {len(header)} columns; "
                "put cells that hold the separator or a line break in double quotes"
            )
        yield row
