"""Tables of text that are read in pieces have the types and values that they have as a whole."""

import json
import math
from unittest import mock

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.tables import delimited_files, json_lines
from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.metadata_files import open_metadata, read_metadata

TEXT = st.text('ab,"\n 1\u00e9', max_size=4)
ROWS = st.lists(st.tuples(TEXT, st.sampled_from(["1", "2.5", ""]), st.sampled_from(["[1]", "[]", "x"])), max_size=9)


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
