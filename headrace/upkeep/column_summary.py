"""Summarizes columns for people: nulls, distinct values, quantiles and a histogram of each."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.format.beside.column_files import read_columns
from headrace.format.beside.column_table import Column, ColumnSpec, ColumnTable
from headrace.format.snapshots.snapshots import Snapshot, read_table
from headrace.stores.storage import Storage

QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
_BINS = 16
_MOST_SHARDS = 256
_MOST_BYTES = 16 << 20
_MOST_VALUES = 3
_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A summary of the values of one column. For text, quantiles and histogram are those of its length in characters.

    Attributes:
        spec: name and type.
        num_rows: number of rows.
        num_nulls: rows without a value.
        num_distinct: number of different values.
        quantiles: smallest value, 10, 50 and 90% points, and largest value; empty without values.
        counts: number of values in each of 16 bins of equal width from the smallest to the largest value.
        most_frequent: up to three values as text, the most frequent first, each with its count.
    """

    spec: ColumnSpec
    num_rows: int
    num_nulls: int
    num_distinct: int
    quantiles: tuple[float, ...]
    counts: tuple[int, ...]
    most_frequent: tuple[tuple[str, int], ...]

    @property
    def label(self) -> str:
        """The name, with `fact.` before that of a fact."""
        return f"fact.{self.spec.name}" if self.spec.is_fact else self.spec.name

    @property
    def share_of_nulls(self) -> float:
        """Share of the rows without a value, 0 to 1."""
        return self.num_nulls / self.num_rows if self.num_rows else 0.0


SUMMARY_HEADERS = ("column", "type", "nulls", "distinct", "smallest", "median", "largest", "most frequent")
"""Headers of the columns that `summary_cells` returns."""


def summary_cells(summary: ColumnSummary) -> list[str]:
    """A summary as text, under `SUMMARY_HEADERS`."""
    unit = " characters" if summary.spec.kind.is_text else ""
    points = [f"{value:.6g}{unit}" for value in summary.quantiles]
    low, middle, high = (points[0], points[2], points[-1]) if points else ("", "", "")
    frequent = ", ".join(f"{value} ({count})" for value, count in summary.most_frequent)
    nulls = f"{summary.num_nulls} ({summary.share_of_nulls:.1%})"
    return [summary.label, str(summary.spec.kind), nulls, str(summary.num_distinct), low, middle, high, frequent]


def summarize_snapshot(storage: Storage, snapshot: Snapshot) -> tuple[list[ColumnSummary], int]:
    """Summaries of the columns of a snapshot, and the number of shards that were read for them.

    All shards are read, or some at equal distances if there are many or large ones.

    Raises:
        NotFoundError: a shard is missing.
        FormatError: a shard is damaged.
    """
    table = read_table(storage, snapshot)
    step = max(1, -(-int(table.num_bytes.sum()) // _MOST_BYTES), -(-len(table) // _MOST_SHARDS))
    names = table.names()[::step]
    return summarize(read_columns(storage, name) for name in names), len(names)


def summarize(tables: Iterable[ColumnTable]) -> list[ColumnSummary]:
    """Summaries of the columns of some shards of one set, in the order of the first shard's columns."""
    columns: dict[tuple[bool, str], list[Column]] = {}
    for table in tables:
        for column in table.columns:
            columns.setdefault((column.spec.is_fact, column.spec.name), []).append(column)
    return [_summary(found) for found in columns.values()]


def _summary(columns: Sequence[Column]) -> ColumnSummary:
    spec, rows = columns[0].spec, sum(map(len, columns))
    nulls = sum(column.num_nulls for column in columns)
    if spec.kind.is_text:
        texts = [text for column in columns for text in _texts(column)]
        counted = Counter(texts)
        numbers = np.array([len(text) for text in texts], np.float64)
        frequent = tuple((_shortened(text), count) for text, count in counted.most_common(_MOST_VALUES))
        distinct = len(counted)
    else:
        numbers = np.concatenate([column.numbers()[column.is_valid] for column in columns])
        values, numbers_of = np.unique(numbers, return_counts=True)
        order = np.argsort(-numbers_of, kind="stable")[:_MOST_VALUES]
        frequent = tuple((f"{values[i]:g}", int(numbers_of[i])) for i in order)
        distinct = len(values)
    quantiles = tuple(float(value) for value in np.quantile(numbers, QUANTILES)) if len(numbers) else ()
    return ColumnSummary(spec, rows, nulls, distinct, quantiles, _histogram(numbers), frequent)


def _histogram(numbers: NDArray[Any]) -> tuple[int, ...]:
    """Counts of the values in equal parts of their range.

    `numpy.histogram` rejects integers that differ in digits that float64 lacks, and ranges beyond its largest number.
    """
    if not len(numbers):
        return ()
    halves = numbers.astype(np.float64) / 2
    low, width = halves.min(), np.ptp(halves)
    places = np.zeros(len(halves)) if width == 0 else (halves - low) / width * _BINS
    return tuple(np.bincount(np.minimum(places.astype(np.int64), _BINS - 1), minlength=_BINS).tolist())


def _texts(column: Column) -> list[str]:
    column = column.as_text()
    blob, edges = column.values.tobytes(), column.offsets.tolist()
    rows = np.flatnonzero(column.is_valid).tolist()
    return [blob[edges[row] : edges[row + 1]].decode() for row in rows]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
