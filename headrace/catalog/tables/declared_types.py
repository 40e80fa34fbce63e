"""Checks cells against the types that a user declares for columns (`source.table.types`). Pure.

The types of other columns are found from their cells (`headrace.catalog.tables.cell_types`).
"""

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from headrace.config.tables import ColumnType
from headrace.errors import ConfigError

DTYPES: dict[ColumnType, pl.DataType] = {
    ColumnType.TEXT: pl.String(),
    ColumnType.INT: pl.Int64(),
    ColumnType.FLOAT: pl.Float64(),
    ColumnType.BOOL: pl.Boolean(),
}
"""The type of a column for each declared type; that of `json` depends on the cells."""

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
}
_MOST_SHOWN = 60
_INT64_LIMIT = 1 << 63


def check_cells(cells: pl.Series, kind: ColumnType, place: str, numbers: Sequence[int]) -> None:
    """Raise `ConfigError` for the first cell (text) of a column that does not fit. Empty cells are null.

    Args:
        cells: a piece of the column, under its name.
        kind: its declared type; cells of `json` are not checked here (`headrace.catalog.tables.json_cells`).
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
    if dtype == pl.String:
        check_cells(values, kind, place, numbers)
    elif dtype.is_nested() or (kind != ColumnType.TEXT and not _is_like(dtype, kind)):
        _check(values.is_null(), values, kind, place, numbers)
    elif kind in {ColumnType.INT, ColumnType.BOOL}:
        there_and_back = values.cast(DTYPES[kind], strict=False).cast(dtype, strict=False)
        _check(there_and_back == values, values, kind, place, numbers)


def _is_like(dtype: pl.DataType, kind: ColumnType) -> bool:
    """Whether values of a type can be numbers, or true and false."""
    return dtype.is_numeric() or (dtype == pl.Boolean and kind == ColumnType.BOOL)


def fits(value: Any, kind: ColumnType) -> bool:  # noqa: ANN401 - any value of JSON
    """Whether a value of JSON fits a column of this type. null fits every type."""
    if value is None or kind == ColumnType.JSON:
        return True
    if isinstance(value, list | dict):
        return False
    if kind == ColumnType.TEXT:
        return True
    if isinstance(value, bool) or kind == ColumnType.BOOL:
        return kind == ColumnType.BOOL and value in {0, 1}
    if kind == ColumnType.INT:
        return isinstance(value, int) and -_INT64_LIMIT <= value < _INT64_LIMIT
    return isinstance(value, int | float)


def misfit(place: str, column: str, value: object, kind: ColumnType) -> ConfigError:
    """The error that a cell does not fit the declared type of its column."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    shown = shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + "…"
    return ConfigError(f"{place}: column {column!r}: expected {_EXPECTED[kind]} (types: {kind}), found {shown!r}")


def _check(fits: pl.Series, cells: pl.Series, kind: ColumnType, place: str, numbers: Sequence[int]) -> None:
    misfits = (~fits.fill_null(value=False) & cells.is_not_null() & _is_filled(cells)).arg_true()
    if len(misfits):
        raise misfit(f"{place} {numbers[misfits[0]]}", cells.name, cells[misfits[0]], kind)


def _is_filled(cells: pl.Series) -> pl.Series:
    return cells != "" if cells.dtype == pl.String else cells.is_not_null()
