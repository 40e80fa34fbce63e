"""Splits a file of text into rows of cells, and refuses quotation marks that hide rows.

An unbalanced quotation mark opens a cell that goes on to the next mark, some lines further down, and the rows between
them become text of this cell. Nothing in the grammar of RFC 4180 forbids that. Such a cell is recognized by its lines:
each has as many separators as it would have if the mark were an ordinary character.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.config.tables import Quotes
from headrace.errors import ConfigError

MAX_CELL_CHARS = 1 << 24

_LINE_END = re.compile(r"\r\n|\r|\n")
_WAY_OUT = (
    "if quotation marks are ordinary characters of this table, write `quotes: none` (source.table, or beside the "
    "table's `uri`)"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Syntax of the cells in a file.

    Attributes:
        delimiter: what is between cells. With a space, any white space is, and the last cell takes the rest of the
            line.
        quotes: the meaning of double quotation marks; without a meaning if the delimiter is a space.
        header: names of the columns of a file without a line of names.
    """

    delimiter: str
    quotes: Quotes = Quotes.STANDARD
    header: tuple[str, ...] | None = None


def header_and_rows(
    lines: Iterable[str], name: str, dialect: Dialect
) -> tuple[Sequence[str], Iterator[tuple[int, list[str]]]]:
    """The names of the columns, and the first line and the cells of each row. Blank lines are skipped.

    Args:
        lines: the lines of the file, with their ends.
        name: name of the file in error messages.
        dialect: how cells are written.

    Raises:
        ConfigError: a row has not as many cells as there are columns, or its quotation marks are not those of RFC 4180,
            or seem to hide rows. The message names the lines. The iterator raises it as well.
    """
    rows = _split(lines) if dialect.delimiter == " " else _parsed(lines, name, dialect)
    header: Sequence[str] = next(rows, (0, 0, []))[2] if dialect.header is None else dialect.header
    if dialect.delimiter == " ":
        header = header if dialect.header else header[0].split() if header else header
        rows = ((first, last, _with_rest(cells, len(header))) for first, last, cells in rows)
    return header, _whole_rows(rows, len(header), name)


def _parsed(lines: Iterable[str], name: str, dialect: Dialect) -> Iterator[tuple[int, int, list[str]]]:
    """First line, last line and cells of each row."""
    csv.field_size_limit(MAX_CELL_CHARS)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if dialect.quotes == Quotes.NONE else csv.QUOTE_MINIMAL
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True, quoting=quoting)
    first = 1
    try:
        for cells in reader:
            last = reader.line_num
            if last > first and (hiding := _hiding_cell(cells, dialect.delimiter)) is not None:
                raise ConfigError(
                    f"{name}, {_lines(first, last)}: cell {hiding + 1} goes over {last - first + 1} lines, which have "
                    f"as many separators as rows of their own: a quotation mark seems to hide rows; {_WAY_OUT}, and if "
                    "the cell has line breaks, write the table as JSON Lines or Parquet"
                )
            yield first, last, cells
            first = last + 1
    except csv.Error as error:
        raise ConfigError(f"{name}, {_lines(first, reader.line_num)}: {error}; {_WAY_OUT}") from error


def _split(lines: Iterable[str]) -> Iterator[tuple[int, int, list[str]]]:
    """The lines as rows of one cell."""
    for number, line in enumerate(lines, 1):
        yield number, number, [line] if line.strip() else []


def _with_rest(cells: list[str], num_columns: int) -> list[str]:
    """The cells of a line. The last one takes the rest of the line, which may be empty."""
    found = [cell for line in cells for cell in line.rstrip("\r\n").split(maxsplit=num_columns - 1)]
    return [*found, ""] if found and len(found) == num_columns - 1 else found


def _hiding_cell(cells: Sequence[str], delimiter: str) -> int | None:
    """Number of the cell over several lines that would be cells of several rows if it had no quotation marks."""
    others = len(cells) - 1  # separators of a row
    for place, cell in enumerate(cells):
        pieces = _LINE_END.split(cell)
        if len(pieces) > 1:
            found = [piece.count(delimiter) for piece in (pieces[0], *filter(None, pieces[1:-1]), pieces[-1])]
            if found == [others - place, *[others] * (len(found) - 2), place]:
                return place
    return None


def _whole_rows(
    rows: Iterable[tuple[int, int, list[str]]], num_columns: int, name: str
) -> Iterator[tuple[int, list[str]]]:
    for first, last, cells in rows:
        if not cells:  # a blank line
            continue
        if len(cells) != num_columns:
            raise ConfigError(
                f"{name}, {_lines(first, last)}: {len(cells)} cells, but the header has {num_columns} columns; put "
                f"cells that hold the separator or a line break in double quotes; {_WAY_OUT}"
            )
        yield first, cells


def _lines(first: int, last: int) -> str:
    return f"line {first}" if last <= first else f"lines {first} to {last}"
