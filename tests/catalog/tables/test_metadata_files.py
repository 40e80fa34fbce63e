"""Tables of text that are read in pieces have the types and values that they have as a whole."""

import json
import math
import os
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.tables import delimited_files, json_lines
from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.metadata_files import open_metadata, read_metadata
from headrace.errors import ConfigError
from tests.support.given_tables import table

TEXT = st.text('ab,"\n 1\u00e9', max_size=4)
ROWS = st.lists(st.tuples(TEXT, st.sampled_from(["1", "2.5", ""]), st.sampled_from(["[1]", "[]", "x"])), max_size=9)


@pytest.mark.medium
@settings(deadline=None, max_examples=20)
@given(rows=ROWS, piece_rows=st.integers(1, 4))
def test_a_csv_file_in_pieces_is_the_file_as_a_whole(tmp_path_factory, rows, piece_rows):
    file = tmp_path_factory.mktemp("csv") / "m.csv"
    quoted = [[text.replace('"', '""'), *others] for text, *others in rows]
    file.write_text("path,n,tags\n" + "".join(f'"{row[0]}","{row[1]}","{row[2]}"\n' for row in quoted), newline="")
    whole = read_metadata(file)
    assert whole["path"].to_list() == [text or None for text, *_ in rows]
    with mock.patch.multiple(delimited_files, _PIECE_ROWS=piece_rows, PartTables=small_tables):
        table = open_metadata(file)
        batches = list(table.batches())
    assert all(batch.height <= piece_rows for batch in batches)
    assert table.schema == whole.schema
    assert pl.concat([table.schema.to_frame(), *batches]).equals(whole)
    assert [batch.rows() for batch in table.batches()] == [batch.rows() for batch in batches]


def small_tables():
    """Tables of which only the first stays in memory."""
    return PartTables(most_bytes=1)


NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from([0.5, math.nan, math.inf, -math.inf, 1 << 40]))
OBJECTS = st.fixed_dictionaries({}, optional={"x": st.integers(0, 3), "b": st.lists(st.integers(0, 3), max_size=2)})
LINES = st.lists(
    st.fixed_dictionaries(
        {"path": st.one_of(st.sampled_from(["a.wav", "b.wav"]), st.integers(0, 3))},
        optional={
            "n": st.one_of(st.none(), NUMBERS),
            "whole": st.integers(-5, 1 << 62),
            "words": st.lists(st.one_of(st.none(), st.text("ab\u00e9", max_size=2)), max_size=2),
            "scores": st.lists(NUMBERS, max_size=3),
            "about": st.one_of(st.none(), OBJECTS),
            "empty": st.just({}),
            "none": st.none(),
        },
    ),
    min_size=1,
    max_size=8,
)


def plain(value, dtype):
    """A value of JSON as a cell of a table with this type."""
    if value is None or (dtype == pl.String and not isinstance(value, (list, dict, int))):
        return value
    if isinstance(dtype, pl.Struct):
        return {field.name: plain(value.get(field.name), field.dtype) for field in dtype.fields}
    if isinstance(dtype, pl.List):
        values = [plain(element, dtype.inner) for element in value]
        return [None if isinstance(element, float) and not math.isfinite(element) else element for element in values]
    if dtype == pl.String:
        return str(value) if isinstance(value, int) else None
    return float(value) if dtype == pl.Float64 else value


def nothing_is_null(value):
    return value if value is not None and any(inner is not None for inner in value.values()) else None


@pytest.mark.medium
@settings(deadline=None, max_examples=30)
@given(rows=LINES, piece_bytes=st.sampled_from([1, 200]))
def test_json_lines_in_pieces_have_the_values_that_python_reads(tmp_path_factory, rows, piece_bytes):
    file = tmp_path_factory.mktemp("lines") / "m.jsonl"
    file.write_text("\n \n".join(map(json.dumps, rows)) + "\n")
    with mock.patch.multiple(json_lines, _PIECE_BYTES=piece_bytes, PartTables=small_tables):
        table = open_metadata(file)
        found = pl.concat([table.schema.to_frame(), *table.batches()])
    whole = read_metadata(file)
    assert table.schema == whole.schema == found.schema
    assert list(table.schema) == list(dict.fromkeys(name for row in rows for name in row))
    assert found.equals(whole)
    for name, dtype in table.schema.items():
        if name in {"path", "empty", "none"}:
            continue
        expected = [plain(row.get(name), dtype) for row in rows]
        found_values = found[name].to_list()
        if isinstance(dtype, pl.Struct):  # an object without names is null in a file that has NaN or the like
            expected, found_values = ([nothing_is_null(value) for value in cells] for cells in (expected, found_values))
        assert all(
            one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))
            for one, other in zip(found_values, expected, strict=True)
        ), (name, found_values, expected)


def test_json_lines_have_the_types_that_polars_infers_from_the_whole_file(tmp_path):
    rows = [
        {"path": "a.wav", "n": 1, "tags": [1], "about": {"b": 1}},
        {"path": "b.wav", "n": 2.5, "tags": [0.5, None], "about": {"a": ["x"]}},
        {"path": "c.wav", "late": 1 << 63, "tags": [], "about": None},
        {"path": "d.wav", "late": -1},
    ]
    file = tmp_path / "m.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with mock.patch.multiple(json_lines, _PIECE_BYTES=1, PartTables=small_tables):
        found = pl.concat(open_metadata(file).batches())
    inferred = pl.read_ndjson(file, infer_schema_length=None).select(found.columns)
    assert found.drop("about").equals(inferred.drop("about"))
    assert found["about"].struct.unnest().select("a", "b").equals(inferred["about"].struct.unnest().select("a", "b"))


def test_paths_and_keys_are_always_text(tmp_path):
    assert table(tmp_path, "m.csv", "path,key\n001,0012\n2,3\n").rows() == [("001", "0012"), ("2", "3")]
    assert table(tmp_path, "m.jsonl", '{"path": 1, "key": 2}\n').rows() == [("1", "2")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.csv", "path,n\na,nan\nb,1\nc,-inf\n"),
        ("m.jsonl", '{"path": "a", "n": NaN}\n\n{"path": "b", "n": 1}\n{"path": "c", "n": -1e999}\n'),
    ],
)
def test_nan_and_infinities_are_floats_in_every_format(tmp_path, name, content):
    assert str(table(tmp_path, name, content)["n"].to_list()) == "[nan, 1.0, -inf]"


def test_empty_cells_of_text_columns_are_null(tmp_path):
    assert table(tmp_path, "m.csv", "path,key,n\na,,1\n,k,2\n").rows() == [("a", None, 1), (None, "k", 2)]


def test_empty_columns_become_text_so_that_they_can_be_stored(tmp_path):
    found = table(tmp_path, "m.jsonl", '{"path": "a", "n": null, "l": []}\n')
    assert found.schema == {"path": pl.String, "n": pl.String, "l": pl.List(pl.String)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", "path,n\na,1\nb,2,3\n", r"m\.csv, line 3: 3 cells, but the header has 2"),
        ("m.csv", "path,n\na,1\nb\n", r"m\.csv, line 3: 1 cells"),
        ("m.csv", 'path,n\na,"1\n', r"m\.csv, line 2"),
        ("m.csv", b"path,n\na,\xe9\n", r"m\.csv: not valid UTF-8"),
        ("m.csv", "", r"m\.csv: has no column 'path'.*none"),
        ("m.csv", "file,title\na,b\n", r"m\.csv: has no column 'path'.*file, title"),
        ("m.csv", ",path\n0,a\n", r"m\.csv: column 1 has no name .*index=False"),
        ("m.csv", "path,a,a\nx,1,2\n", r"two columns are named 'a'"),
        ("m.jsonl", '{"path": "a"}\n{"path": \n', r"m\.jsonl, line 2"),
        ("m.jsonl", '{"path": "a"}\n[1]\n', r"m\.jsonl, line 2: expected one JSON object per line"),
        ("m.jsonl", '{"path": ["a"]}\n', r"m\.jsonl: column 'path' must be text"),
        ("m.jsonl", "", r"m\.jsonl"),
        ("m.jsonl", '{"path": "a", "t": "\\ud83d"}\n', r"m\.jsonl, line 1: half of a surrogate pair \('\\ud83d'\)"),
        ("m.jsonl", '{"path": ' + "[" * 9999 + "]" * 9999 + "}", r"m\.jsonl, line 1: .*nested too deeply"),
        ("m.parquet", b"PAR1 junk", r"m\.parquet: not a readable Parquet file"),
        ("m.xlsx", b"", r"m\.xlsx: the file's name must end in one of \.csv"),
    ],
)
def test_the_error_about_an_invalid_table_names_file_and_line(tmp_path, name, content, message):
    with pytest.raises(ConfigError, match=message):
        table(tmp_path, name, content)


def test_the_error_about_a_missing_table_names_it(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.csv: there is no such file"):
        read_metadata(tmp_path / "gone.csv")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_special_file_in_place_of_the_table_is_an_error_that_names_it_and_does_not_block(tmp_path, suffix):
    pipe, link, folder = (tmp_path / f"{name}.{suffix}" for name in ("pipe", "link", "folder"))
    os.mkfifo(pipe)
    link.symlink_to("gone.csv")
    folder.mkdir()
    with pytest.raises(ConfigError, match=rf"pipe\.{suffix}: not a regular file but a pipe"):
        read_metadata(pipe)
    with pytest.raises(ConfigError, match=rf"link\.{suffix}: a symbolic link to gone\.csv, which does not exist"):
        read_metadata(link)
    with pytest.raises(ConfigError, match=rf"folder\.{suffix}: a folder"):
        read_metadata(folder)
