"""Reads and writes the times of a column of intervals: lists of `{start, end, …}` in seconds, as arrays.

The other names of the intervals are JSON, which `column_table` keeps as it does other JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

START, END = "start", "end"


@dataclass(frozen=True)
class Intervals:
    """The times of the intervals of n rows.

    Attributes:
        starts: float64 (m,), seconds, those of all rows end to end.
        ends: float64 (m,), seconds; not before the starts.
        offsets: int64 (n + 1,), where the intervals of each row begin.
    """

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Mapping[str, Any]] | None]) -> "Intervals":
        """The times of lists of intervals; of None none."""
        found = [one for row in rows for one in row or ()]
        starts, ends = (np.array([one[name] for one in found], np.float64) for name in (START, END))
        return cls(starts, ends, np.cumsum([0, *(len(row or ()) for row in rows)]))

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], number: int, rows: int) -> "Intervals":
        """The times of column `number` of a file. Raises `ValueError` if the arrays do not fit."""
        starts, ends, offsets = (arrays.get(f"{number}.{part}", np.zeros(0)) for part in ("starts", "ends", "rows"))
        dtypes = [str(array.dtype) for array in (starts, ends, offsets)]
        if dtypes != ["float64", "float64", "int64"] or (starts.ndim, ends.shape) != (1, starts.shape):
            raise ValueError("its intervals do not have F64 starts and ends")
        steps = np.diff(offsets)
        if offsets.shape != (rows + 1,) or offsets[0] != 0 or offsets[-1] != len(starts) or (steps < 0).any():
            raise ValueError(f"its {len(starts)} intervals are not divided among {rows} rows")
        if not ((starts >= 0) & (starts <= ends) & np.isfinite(ends)).all():
            raise ValueError("an interval does not have end >= start >= 0")
        return cls(starts, ends, offsets)

    def arrays(self, number: int) -> dict[str, NDArray[Any]]:
        """The arrays of this column in a file, as column `number`."""
        return {f"{number}.starts": self.starts, f"{number}.ends": self.ends, f"{number}.rows": self.offsets}

    def row(self, row: int, others: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The intervals of a row. Raises `ValueError` unless the other names are those of as many.

        Args:
            row: its number.
            others: the other names of each interval.
        """
        part = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        times = zip(self.starts[part].tolist(), self.ends[part].tolist(), others, strict=True)
        return [{START: start, END: end, **other} for start, end, other in times]


def without_times(intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The other names of each interval."""
    return [{name: value for name, value in one.items() if name not in {START, END}} for one in intervals]
