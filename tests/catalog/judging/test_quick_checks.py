"""Tables that pass the quick checks pass those of pandera, to which any flaw is left."""

import pandera.polars as pa
import polars as pl
import pytest

from headrace.catalog.judging.quick_checks import surely_passes

SCHEMA = pa.DataFrameSchema(
    {
        "key": pa.Column(pl.String, [pa.Check.str_matches("^[a-z]+$"), pa.Check.str_length(1, 3)], unique=True),
        "path": pa.Column(pl.String, [pa.Check.str_length(min_value=1)]),
        "frames": pa.Column(pl.Int64, [pa.Check.gt(0)]),
        "start": pa.Column(pl.Int64, [pa.Check.ge(0)]),
        "bits": pa.Column(pl.Int64, [pa.Check.in_range(1, 64)], nullable=True),
        "origin": pa.Column(pl.String, [pa.Check.isin(["file", "row"])]),
    }
)
SOUND = {"key": ["a", "abc"], "path": ["x" * 99, "y"], "frames": [1, 9], "start": [0, 3], "bits": [None, 64]}
SOUND |= {"origin": ["file", "row"]}
FLAWS = {
    "key": [["a", "a"], ["a", "A"], ["a", "abcd"], ["a", None], [1, 2]],
    "path": [["x", ""], ["x", None]],
    "frames": [[1, 0], [1, None], [1.0, 2.0]],
    "start": [[0, -1], [0, None]],
    "bits": [[0, None], [1, 65]],
    "origin": [["file", "other"], ["file", None]],
}


def test_a_sound_table_passes_also_without_rows():
    table = pl.DataFrame(SOUND)
    for one in (table, table.clear(), table.with_columns(other=1)):
        SCHEMA.validate(one, lazy=True)
        assert surely_passes(SCHEMA, one)


@pytest.mark.parametrize(("name", "values"), [(name, values) for name in FLAWS for values in FLAWS[name]], ids=str)
def test_a_flaw_is_left_to_pandera(name, values):
    table = pl.DataFrame(SOUND | {name: values})
    with pytest.raises((pa.errors.SchemaError, pa.errors.SchemaErrors)):
        SCHEMA.validate(table, lazy=True)
    assert not surely_passes(SCHEMA, table)


def test_columns_that_are_missing_or_in_a_strict_schema_more_are_left_to_pandera():
    strict = pa.DataFrameSchema({"a": pa.Column(pl.Int64)}, strict=True)
    assert surely_passes(strict, pl.DataFrame({"a": [1]}))
    assert not surely_passes(strict, pl.DataFrame({"a": [1], "b": [1]}))
    assert not surely_passes(SCHEMA, pl.DataFrame(SOUND).drop("path"))


def test_a_check_that_is_not_known_is_left_to_pandera():
    assert not surely_passes(pa.DataFrameSchema({"a": pa.Column(pl.Int64, [pa.Check.lt(9)])}), pl.DataFrame({"a": [1]}))
