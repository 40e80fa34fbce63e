"""Checks cells against the types that a user declares for columns (`source.table.types`). Pure.

The types of other columns are found from their cells (`headrace.catalog.tables.cell_types`).
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from headrace.config.tables import ColumnType
from headrace.errors import ConfigError
from headrace.format.beside.intervals import END, START

DTYPES: dict[ColumnType, pl.DataType] = {
    ColumnType.TEXT: pl.String(),
    ColumnType.INT: pl.Int64(),
    ColumnType.FLOAT: pl.Float64(),
    ColumnType.BOOL: pl.Boolean(),
}
"""The type of a column for each declared type; those of `json` and `intervals` depend on the cells."""

_PATTERNS = {
    ColumnType.INT: r"^[+-]?[0-9]+$",
    ColumnType.FLOAT: r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(?i)[+-]?(nan|inf|infinity)$",
    ColumnType.BOOL: r"^(?i)(true|false|1|0)$",
}
_EXPECTED = {
    ColumnType.TEXT: "text",
    ColumnType.INT: "a whole number that fits 64 bits",
    ColumnType.FLOAT: "a number",
    ColumnType.BOOL: "true, false, 1 or 0",
    ColumnType.JSON: "JSON",
    ColumnType.INTERVALS: "a list of {start, end, …} in seconds with end >= start >= 0",
}
_MOST_SHOWN = 60
_INT64_LIMIT = 1 << 63


def check_cells(cells: pl.Series, kind: ColumnType, place: str, numbers: Sequence[int]) -> None:
    """Raise `ConfigError` for the first cell (text) of a column that does not fit. Empty cells are null.

    Args:
        cells: a piece of the column, under its name.
        kind: its declared type; cells of JSON are not checked here (`headrace.catalog.tables.json_cells`).
        place: what the message has before the number, such as `table x.csv, line`.
        numbers: the line, or row, of each cell.
    """
    pattern = _PATTERNS.get(kind)
    if pattern is None:
        return
    bare = cells.replace("", None).str.strip_chars()
    fits = bare.str.contains(pattern)
    if kind == ColumnType.INT:
        fits &= bare.cast(pl.Int64, strict=False).is_not_null()
    _check(fits, cells, kind, place, numbers)


def check_values(values: pl.Series, kind: ColumnType, place: str, numbers: Sequence[int]) -> None:
    """`check_cells` for a column that has a type of its own, as in Parquet."""
    dtype = values.dtype
    if kind == ColumnType.JSON or dtype == pl.Null:
        return
    if kind == ColumnType.INTERVALS and dtype != pl.String:
        fitting = pl.Series([fits(value, kind) for value in values.to_list()], dtype=pl.Boolean)
        _check(fitting, values, kind, place, numbers)
    elif dtype == pl.String:
        check_cells(values, kind, place, numbers)
    elif dtype.is_nested() or (kind != ColumnType.TEXT and not _is_like(dtype, kind)):
        _check(values.is_null(), values, kind, place, numbers)
    elif kind == ColumnType.BOOL and dtype != pl.Boolean:
        _check((values == 0) | (values == 1), values, kind, place, numbers)
    elif kind == ColumnType.INT:
        there_and_back = values.cast(DTYPES[kind], strict=False).cast(dtype, strict=False)
        _check(there_and_back == values, values, kind, place, numbers)


def _is_like(dtype: pl.DataType, kind: ColumnType) -> bool:
    """Whether values of a type can be numbers, or true and false."""
    return dtype.is_numeric() or (dtype == pl.Boolean and kind == ColumnType.BOOL)


def fits(value: Any, kind: ColumnType) -> bool:  # noqa: ANN401 - any value of JSON
    """Whether a value of JSON fits a column of this type. null fits every type."""
    if value is None or kind == ColumnType.JSON:
        return True
    if isinstance(value, list | dict) or kind == ColumnType.INTERVALS:
        return kind == ColumnType.INTERVALS and isinstance(value, list) and all(map(_is_interval, value))
    if kind == ColumnType.TEXT:
        return True
    if isinstance(value, bool) or kind == ColumnType.BOOL:
        return kind == ColumnType.BOOL and value in {0, 1}
    if kind == ColumnType.INT:
        return isinstance(value, int) and -_INT64_LIMIT <= value < _INT64_LIMIT
    return isinstance(value, int | float)


def _is_interval(value: object) -> bool:
    """Whether a value of JSON is an interval: its times are finite numbers, and it does not end before it starts."""
    if not isinstance(value, dict):
        return False
    start, end = value.get(START), value.get(END)
    if isinstance(start, bool) or isinstance(end, bool):
        return False
    return isinstance(start, int | float) and isinstance(end, int | float) and 0 <= start <= end < math.inf


def intervals_type(dtype: pl.DataType) -> pl.DataType:
    """The type of a column of intervals, given the type that its values have: the times come first, and are floats.

    So `is_intervals` finds it by the type alone, also in a stored catalog.
    """
    inner = dtype.inner if isinstance(dtype, pl.List) else None
    others = inner.fields if isinstance(inner, pl.Struct) else []
    fields = [pl.Field(START, pl.Float64), pl.Field(END, pl.Float64)]
    return pl.List(pl.Struct([*fields, *(one for one in others if one.name not in {START, END})]))


def is_intervals(dtype: pl.DataType) -> bool:
    """Whether a type is that of a column of intervals."""
    return isinstance(dtype, pl.List) and intervals_type(dtype) == dtype


def misfit(place: str, column: str, value: object, kind: ColumnType) -> ConfigError:
    """The error that a cell does not fit the declared type of its column."""
    if kind == ColumnType.INTERVALS and isinstance(value, list):
        value = next(one for one in value if not _is_interval(one))
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + "…"
    return ConfigError(f"{place}: column {column!r}: expected {_EXPECTED[kind]} (types: {kind}), found {shown!r}")


def _check(fits: pl.Series, cells: pl.Series, kind: ColumnType, place: str, numbers: Sequence[int]) -> None:
    misfits = (~fits.fill_null(value=False) & cells.is_not_null() & _is_filled(cells)).arg_true()
    if len(misfits):
        value = cells[misfits[0]]
        value = value.to_list() if isinstance(value, pl.Series) else value
        raise misfit(f"{place} {numbers[misfits[0]]}", cells.name, value, kind)


def _is_filled(cells: pl.Series) -> pl.Series:
    return cells != "" if cells.dtype == pl.String else cells.is_not_null()
