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
        file: their file.
        lines: number of each row's line or row in the file, from 1.
        unit: `line` or `row`.
        is_one_of_several: whether the table has other files.
    """

    file: TableFileName
    lines: pl.Series
    unit: str
    is_one_of_several: bool


class NumberedTable(Protocol):
    """A table whose rows have numbers of their own, such as lines."""

    @property
    def unit(self) -> str:
        """Unit of the numbers: `line` or `row`."""

    def numbered(self) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """The rows in order, some at a time, and their numbers."""
