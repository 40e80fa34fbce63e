"""The origin of the rows of a table: the file, and the line or row in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

import polars as pl

LINE = "\0line"
"""Name of a column with the number of each row's line; no column of a user has such a name."""

_PACKED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class TableFileName:
    """The file of a table.

    Attributes:
        shown: its path or URL, as messages name it.
    """

    shown: str

    @property
    def folder(self) -> str:
        """The folder, as a path or URL; empty if the name has none."""
        return self.shown.rpartition("/")[0]

    @property
    def stem(self) -> str:
        """The name without the extension, and without that of a compressed file."""
        name = PurePosixPath(self.shown.rpartition("/")[2])
        return PurePosixPath(name.stem).stem if name.suffix.lower() in _PACKED else name.stem


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The origin of the rows of a batch.

    Attributes:
        file: their file; None for rows of a corpus or of sidecars.
        lines: number of each row's line or row in the file, from 1. Without a file the name of each row, such as
            `line 7 of FILE` or the path of a sidecar; null for one without a name of its own.
        unit: `line` or `row`.
        is_one_of_several: whether the table has other files.
        faults: of rows of a table that belong to no row of the corpus to which it is joined, why.
        intervals: of rows that are intervals in a column, the number of each, from 1, in its line or sidecar.
    """

    file: TableFileName | None
    lines: pl.Series
    unit: str = "row"
    is_one_of_several: bool = False
    faults: pl.Series | None = None
    intervals: pl.Series | None = None

    def names(self) -> pl.Series | None:
        """The name of each row in messages; None if its number in the table is its name."""
        if self.intervals is not None:
            lines = self.lines if self.file is None else line_names(self.file, self.lines, self.unit)
            return pl.select(pl.format("interval {} of {}", pl.lit(self.intervals), pl.lit(lines))).to_series()
        if self.file is None:
            return self.lines
        return line_names(self.file, self.lines, self.unit) if self.is_one_of_several else None


def line_names(file: TableFileName, lines: pl.Series, unit: str) -> pl.Series:
    """Names of lines, or rows, of a file: `line 7 of FILE`."""
    return pl.select(pl.format(f"{unit} {{}} of {{}}", pl.lit(lines), pl.lit(file.shown))).to_series()


class NumberedTable(Protocol):
    """A table whose rows have numbers of their own, such as lines."""

    @property
    def unit(self) -> str:
        """Unit of the numbers: `line` or `row`."""

    def numbered(self) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """The rows in order, some at a time, and their numbers."""
