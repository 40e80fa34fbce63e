"""Columns of a table become columns beside shards, with the values that the JSON of a sample would have."""

import datetime as dt
import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.rows.column_types import kind_of, specs_of_table, typed_columns
from headrace.catalog.rows.metadata_columns import json_values
from headrace.format.beside.column_table import ColumnKind

TABLE = pl.DataFrame(
    {
        "text": ["a", None, "é", ""],
        "whole": [1, None, -(1 << 63), 0],
        "small": pl.Series([1, None, 255, 0], dtype=pl.UInt8),
        "wide": pl.Series([1, None, (1 << 64) - 1, 0], dtype=pl.UInt64),
        "real": [1.5, None, math.inf, math.nan],
        "flag": [True, None, False, True],
        "list": [[1, 2], None, [], [None]],
        "object": [{"x": 1.0}, None, {"x": math.nan}, {"x": None}],
        "day": [dt.date(2026, 1, 2), None, dt.date(1, 1, 1), dt.date(2026, 1, 3)],
        "span": [dt.timedelta(seconds=1.5), None, dt.timedelta(0), dt.timedelta(days=1)],
        "kind": pl.Series(["x", None, "y", "x"], dtype=pl.Categorical),
        "nothing": pl.Series([None] * 4, dtype=pl.Null),
    }
)


@pytest.mark.medium
@given(st.lists(st.none() | st.integers(0, TABLE.height - 1), max_size=8))
def test_values_of_rows_are_those_of_the_json_and_null_where_there_is_no_row(rows):
    for column, spec in zip(typed_columns(TABLE, rows), specs_of_table(TABLE), strict=True):
        values = json_values(TABLE[spec.name])
        assert column.spec == spec
        assert column.take(range(len(rows))) == [None if row is None else values[row] for row in rows]


def test_the_type_depends_on_the_tables_type_alone():
    kinds = {spec.name: spec.kind for spec in specs_of_table(TABLE)}
    K = ColumnKind  # noqa: N806 - a short name
    assert kinds == {
        "text": K.STRING, "whole": K.INT, "small": K.INT, "wide": K.JSON, "real": K.FLOAT, "flag": K.BOOL,
        "list": K.JSON, "object": K.JSON, "day": K.STRING, "span": K.FLOAT, "kind": K.STRING, "nothing": K.STRING,
    }  # fmt: skip
    assert specs_of_table(TABLE.clear()) == specs_of_table(TABLE)
    assert kind_of(pl.Decimal(10, 2)) is K.FLOAT
