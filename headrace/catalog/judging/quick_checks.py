"""Finds out with one query that a table passes a pandera schema, which itself takes milliseconds for each column."""

from collections.abc import Callable, Mapping
from typing import Any

import pandera.polars as pa
import polars as pl

_CONDITIONS: dict[str, Callable[[pl.Expr, Mapping[str, Any]], pl.Expr]] = {
    "greater_than": lambda values, limits: values > limits["min_value"],
    "greater_than_or_equal_to": lambda values, limits: values >= limits["min_value"],
    "in_range": lambda values, limits: values.is_between(limits["min_value"], limits["max_value"]),
    "isin": lambda values, limits: values.is_in(limits["allowed_values"]),
    "str_matches": lambda values, limits: values.str.contains(limits["pattern"]),
    "str_length": lambda values, limits: values.str.len_chars().is_between(
        limits["min_value"], limits["max_value"] or 2**32
    ),
}
"""Checks of pandera by name, as conditions of values."""


def surely_passes(schema: pa.DataFrameSchema, table: pl.DataFrame) -> bool:
    """Whether a table passes a schema of Headrace. False if it does not, or if the schema has to say."""
    if schema.strict and table.columns != list(schema.columns):
        return False
    if any(table.schema.get(name) != column.dtype.type for name, column in schema.columns.items()):
        return False
    conditions = [holds for name, column in schema.columns.items() for holds in _conditions(pl.col(name), column)]
    return bool(table.select(pl.all_horizontal(conditions)).item())


def _conditions(values: pl.Expr, column: pa.Column) -> list[pl.Expr]:
    found = [
        _CONDITIONS[check.name](values, check.statistics).all() if check.name in _CONDITIONS else pl.lit(value=False)
        for check in column.checks
    ]
    if not column.nullable:
        found.append(values.is_not_null().all())
    if column.unique:
        found.append(values.is_unique().all())
    return found
