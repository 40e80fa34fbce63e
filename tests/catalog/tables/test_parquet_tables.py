"""Parquet tables are read in batches with the types of the whole table."""

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

from headrace.catalog.rows.metadata_columns import json_values
from headrace.catalog.tables.metadata_files import open_metadata, read_metadata
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError


def test_a_parquet_table_in_batches_has_the_types_of_the_whole_table(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.catalog.tables.parquet_tables.BATCH_ROWS", 3)
    table = pl.DataFrame({"path": range(8), "n": range(8), "none": [None] * 8, "lists": [[]] * 8})
    table.write_parquet(tmp_path / "table.parquet")
    opened = open_metadata(tmp_path / "table.parquet")
    whole = read_metadata(tmp_path / "table.parquet")
    batches = list(opened.batches())
    assert [batch.height for batch in batches] == [3, 3, 2]
    assert pl.concat(batches).equals(whole)
    assert opened.schema == whole.schema == pl.concat(batches).schema


@pytest.mark.parametrize("content", [b"", b"no parquet"])
def test_a_damaged_parquet_table_is_an_error_by_name(tmp_path, content):
    (tmp_path / "table.parquet").write_bytes(content)
    with pytest.raises(ConfigError, match=r"table\.parquet: not a readable Parquet file"):
        open_metadata(tmp_path / "table.parquet")


def test_a_parquet_file_of_a_type_that_cannot_be_read_is_an_error_that_names_it(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    wide = arrow.array([None], arrow.decimal256(60, 2))
    parquet.write_table(arrow.table({"path": ["a.wav"], "wide": wide}), tmp_path / "m.parquet")
    with pytest.raises(ConfigError, match=r"m\.parquet: not a readable Parquet file"):
        open_metadata(tmp_path / "m.parquet")


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"path": ["a"], "chords": [[1, 2]]}, schema_overrides={"chords": pl.List(pl.Int16)})
    frame.write_parquet(tmp_path / "m.parquet")
    assert read_metadata(tmp_path / "m.parquet").equals(frame)


TEXT = {"t": "text"}
MOMENT = dt.datetime.fromisoformat("2024-01-02T03:04:05")
TIMES = [
    MOMENT, MOMENT.replace(microsecond=6), MOMENT.replace(tzinfo=dt.UTC), MOMENT.date(), MOMENT.time(),
    dt.time(3, 4, 5, 6), dt.timedelta(days=1, seconds=1.5),
]  # fmt: skip


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("value", TIMES)
def test_dates_and_times_as_text_are_those_of_the_json(tmp_path, value, unit):
    values = pl.Series("t", [value, None])
    if values.dtype.base_type() in {pl.Datetime, pl.Duration}:
        values = values.dt.cast_time_unit(unit)
    pl.DataFrame({"path": ["a", "b"], "t": values}).write_parquet(tmp_path / "m.parquet")
    found, declared = (read_metadata(tmp_path / "m.parquet", form=TableConfig(types=types)) for types in ({}, TEXT))
    first, none = json_values(found["t"])
    assert (declared["t"].dtype, json_values(declared["t"]), none) == (pl.String(), [str(first), None], None)


def test_texts_of_a_dictionary_are_texts(tmp_path):
    words = pl.Series(["[1]", "[2]", None], dtype=pl.Categorical)
    lists = words.implode().implode().gather([0, 0, 0])
    rows = pl.DataFrame({"path": ["a", "b", "c"], "t": words, "n": words, "many": lists.list.first()})
    rows.write_parquet(tmp_path / "m.parquet")
    found = read_metadata(tmp_path / "m.parquet", form=TableConfig(types={"n": "json"}))
    assert found.schema == pl.Schema(
        {"path": pl.String, "t": pl.String, "n": pl.List(pl.Int64), "many": pl.List(pl.String)}
    )
    assert found["n"].to_list() == [[1], [2], None]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([Decimal("1.0"), Decimal("0.0"), None], "bool", [True, False, None]),
        ([Decimal("1.5"), None], "bool", "true, false, 1 or 0 .*found .*1.5"),
        ([2, 1], "bool", "row 1: .*found '2'"),
        ([1.0, 0.0, None], "bool", [True, False, None]),
    ],
)
def test_values_of_a_declared_type_fit_or_are_named(tmp_path, values, kind, expected):
    pl.DataFrame({"path": [str(n) for n in range(len(values))], "t": values}).write_parquet(tmp_path / "m.parquet")
    form = TableConfig(types={"t": kind})
    if isinstance(expected, list):
        assert read_metadata(tmp_path / "m.parquet", form=form)["t"].to_list() == expected
    else:
        with pytest.raises(ConfigError, match=rf"m\.parquet, {expected}" if "row" in expected else expected):
            read_metadata(tmp_path / "m.parquet", form=form)


@pytest.mark.parametrize("column", ["path", "key", "t"])
@pytest.mark.parametrize("last", [b"y", b"\xff"])
def test_bytes_in_columns_of_text_are_text_or_an_error_that_names_the_file(tmp_path, column, last):
    rows = {"path": ["a", "b"], "key": ["c", "d"], "t": ["e", "f"]} | {column: [b"x", last]}
    pl.DataFrame(rows).write_parquet(tmp_path / "m.parquet")
    form = TableConfig(types={"t": "text"})
    if last == b"y":
        assert read_metadata(tmp_path / "m.parquet", form=form)[column].to_list() == ["x", "y"]
    else:
        with pytest.raises(ConfigError, match=r"m\.parquet: not a readable Parquet file: invalid utf8"):
            read_metadata(tmp_path / "m.parquet", form=form)
