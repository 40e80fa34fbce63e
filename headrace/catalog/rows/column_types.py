"""Turns columns of a table into columns beside shards: their types, and their values by row.

The values are those that the JSON of a sample would have (`metadata_columns`).
"""

from collections.abc import Sequence

import polars as pl

from headrace.catalog.rows.metadata_columns import json_values
from headrace.catalog.tables.declared_types import is_intervals
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec

_WIDE = {pl.UInt64, pl.Int128}  # may not fit 64 bits with a sign


def specs_of_table(table: pl.DataFrame) -> tuple[ColumnSpec, ...]:
    """Name and type of each column of a table, in its order."""
    return tuple(ColumnSpec(name, kind_of(dtype)) for name, dtype in table.schema.items())


def kind_of(dtype: pl.DataType) -> ColumnKind:
    """The type of a column beside shards, given that of a table's column.

    Integers that may not fit 64 bits with a sign are stored as JSON, which loses no digit. A type depends on the
    column's type alone, so that all shards have the same.
    """
    if is_intervals(dtype):
        return ColumnKind.INTERVALS
    if dtype.is_nested() or dtype.base_type() in _WIDE:
        return ColumnKind.JSON
    if dtype.is_integer():
        return ColumnKind.INT
    if dtype.is_float() or dtype.base_type() in {pl.Decimal, pl.Duration}:
        return ColumnKind.FLOAT
    return ColumnKind.BOOL if dtype == pl.Boolean else ColumnKind.STRING


def typed_columns(table: pl.DataFrame, rows: Sequence[int | None]) -> tuple[Column, ...]:
    """The values of some rows of a table, in their order; null for None."""
    picked = table.select(pl.all().gather(pl.Series(rows, dtype=pl.Int64)))
    return tuple(Column.of(spec, json_values(picked[spec.name])) for spec in specs_of_table(table))
