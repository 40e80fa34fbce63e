"""Columns of the metadata that have a meaning: path, key, and begin and end of a span."""

import polars as pl
import pytest

from headrace.catalog.rows.row_columns import (
    DURATION,
    END,
    EXPLICIT_KEY,
    ROW_NUMBER,
    SPAN_FAULT,
    START,
    RowColumns,
    field_column,
    ours,
    path_columns,
    row_said,
    rows_with_two_ends,
    two_ends,
    with_roles,
)
from headrace.config.source import ColumnsConfig, SampleKind
from headrace.errors import ConfigError

ROWS, FILES = SampleKind.ROWS, SampleKind.FILES


def roles(names, columns=None, samples=ROWS, fields=None):
    return RowColumns.of(ColumnsConfig(**columns or {}), samples, names, fields or {})


def prepared(table, columns=None, first_row=1, fields=None):
    found = roles(list(table), columns, fields=fields)
    return with_roles(pl.DataFrame(table), found, {"user": pl.lit(7)}, first_row)


@pytest.mark.parametrize(
    ("names", "columns", "spans"),
    [
        (["path", "start", "end"], {}, {START: "start", END: "end"}),
        (["path", "start", "duration"], {}, {START: "start", DURATION: "duration"}),
        (["path", "start", "end", "duration"], {"end": "end"}, {START: "start", END: "end"}),
        (["path", "begin", "end"], {"start": "begin"}, {START: "begin", END: "end"}),
        (["path", "start", "end"], {"start": None, "end": None}, {}),
        (["path", "start", "end", "duration"], {"end": None}, {START: "start", DURATION: "duration"}),
        (["path", "start", "end", "duration"], {"duration": None}, {START: "start", END: "end"}),
        (["path", "start", "duration"], {"end": None, "duration": None}, {START: "start"}),
    ],
)
def test_spans_have_default_names_unless_others_are_given(names, columns, spans):
    assert roles(names, columns).spans == spans
    assert roles(names, columns if columns == {} else None, FILES).spans == {}


def test_a_path_that_is_not_mapped_is_no_metadata():
    assert roles(["path"]).unmapped_path == "path"
    assert roles(["file"], {"path": "file"}).unmapped_path is None
    of_fields = roles(["m", "v"], fields={"mix": "m", "voice": "v"})
    assert (of_fields.path, of_fields.unmapped_path, of_fields.fields) == ("m", None, {"voice": "v"})


@pytest.mark.parametrize(
    ("names", "columns", "fields", "message"),
    [
        (["file"], {}, {}, "the metadata table has no column 'path'; its columns are file"),
        (["path"], {"key": "id"}, {}, "source.columns.key: the metadata table has no column 'id'"),
        (["path"], {}, {"mix": "path", "voice": "v"}, "source.fields.voice: the metadata table has no column 'v'"),
    ],
)
def test_a_column_that_the_table_lacks_is_an_error(names, columns, fields, message):
    with pytest.raises(ConfigError, match=message):
        roles(names, columns, fields=fields)


def test_columns_get_our_names_and_rows_are_numbered_on():
    table = {"m": ["a.wav", "b.wav"], "v": ["c.wav", None], "id": ["k", ""]}
    found = prepared(table, {"key": "id"}, 5, {"mix": "m", "voice": "v"})
    assert found["path"].to_list() == ["a.wav", "b.wav"]
    assert found[EXPLICIT_KEY].to_list() == ["k", None]
    assert found[ROW_NUMBER].to_list() == [5, 6]
    assert found[field_column("voice")].to_list() == ["c.wav", None]
    assert path_columns(found) == ["path", field_column("voice")]
    assert set(found.columns) - set(ours(found)) == {"path", "user"}
    assert found.select(row_said("names {}", pl.col("path")))[0, 0] == "row 5 of the metadata table names a.wav"


@pytest.mark.parametrize(
    ("start", "end", "fault"),
    [
        ("1", "2.5", None),
        ("", "", None),
        ("2", "1", "has end: 1, before its start: 2"),
        ("-1", "1", "has start: -1, expected seconds, not below 0"),
        ("x", "1", "has start: x, which is not a finite number of seconds"),
        ("1", "inf", "has end: inf, which is not a finite number of seconds"),
    ],
)
def test_the_fault_of_a_span_is_named(start, end, fault):
    found = prepared({"path": ["a"], "start": [start], "end": [end]})
    assert found[SPAN_FAULT].to_list() == [fault]


def test_seconds_are_numbers_or_text():
    with pytest.raises(ConfigError, match="metadata column 'start': expected seconds as numbers, found List"):
        prepared({"path": ["a"], "start": [[1]]})


def test_rows_with_two_ends_are_named_with_the_way_out():
    table = {"path": ["a", "b", "c"], "end": [1, 2, -1], "duration": [1, None, 1]}
    assert rows_with_two_ends(prepared(table)).to_list() == ["row 1"]
    error = two_ends(roles(list(table)), ["row 1"], 4)
    assert "rows 1 and 3 more" in str(error)
    assert "source.columns: {end: end} or {duration: duration}" in str(error)
