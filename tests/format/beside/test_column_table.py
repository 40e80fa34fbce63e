"""Files of columns: what is written is read back, also without Headrace, and damage is an error."""

import json
import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError, FormatError
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable, keys_digest
from tests.support.column_table import CAPTIONS, table

INT64 = 1 << 63
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


VALUES = {
    ColumnKind.STRING: st.text(st.characters(codec="utf-8"), max_size=8),
    ColumnKind.INT: st.integers(-INT64, INT64 - 1),
    ColumnKind.FLOAT: st.floats(),
    ColumnKind.BOOL: st.booleans(),
    ColumnKind.JSON: JSON_VALUES.filter(lambda value: value is not None),
    ColumnKind.INTERVALS: st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 5), st.dictionaries(st.sampled_from("abc"), JSON_VALUES)).map(
            lambda one: {"start": min(one[:2]), "end": max(one[:2]), **one[2]}
        ),
        max_size=3,
    ),
}


@st.composite
def columns(draw):
    """Kind and values of a few columns of equal length."""
    rows = draw(st.integers(0, 6))
    kinds = draw(st.lists(st.sampled_from(ColumnKind), min_size=min(rows, 1), max_size=6))
    return rows, [(kind, draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows))) for kind in kinds]


def expected(kind, value):
    is_lost = kind is ColumnKind.FLOAT and value is not None and not math.isfinite(value)
    return None if is_lost else value


@pytest.mark.medium
@given(columns())
def test_values_of_every_kind_are_read_back(found):
    rows, given_columns = found
    keys = [f"k{row}" for row in range(rows)]
    made = table(*((f"c{i}", *column) for i, column in enumerate(given_columns)), keys=keys)
    read = ColumnTable.from_bytes(made.to_bytes(), "x.columns")
    assert (len(read), read.specs, read.keys_sha256) == (rows, made.specs, keys_digest(keys))
    for i, (kind, values) in enumerate(given_columns):
        wanted = [expected(kind, value) for value in values]
        column = read.column(f"c{i}")
        assert column.take(range(rows)) == wanted
        assert column.num_nulls == wanted.count(None)
        if not kind.is_text:
            numbers = [math.nan if value is None else float(value) for value in wanted]
            np.testing.assert_array_equal(column.numbers(), numbers)
    assert read.to_bytes() == made.to_bytes()


def test_the_code_of_the_format_page_reads_a_file():
    blob = CAPTIONS.to_bytes()
    assert int(blob[34:42], 16) == zlib.crc32(blob[:34] + b"00000000" + blob[42:])
    length = int.from_bytes(blob[:8], "little")
    header, body = json.loads(blob[8 : 8 + length]), blob[8 + length :]
    specs = json.loads(header["__metadata__"]["columns"])
    assert [spec["name"] for spec in specs] == ["caption", "snr", "tags"]
    assert [spec["kind"] for spec in specs] == ["string", "float", "json"]
    cut = {name: body[slice(*spec["data_offsets"])] for name, spec in header.items() if name != "__metadata__"}
    offsets = np.frombuffer(cut["0.offsets"], "<i4")
    assert cut["0.values"][offsets[2] : offsets[3]].decode() == "große Trommel"
    assert np.frombuffer(cut["1.values"], "<f8").tolist() == [1.5, 0.0, -2.0]
    assert list(cut["1.valid"]) == [1, 0, 1]


@pytest.mark.parametrize("place", [3, 38, 200, -1])
def test_a_changed_byte_is_an_error_that_names_the_file(place):
    blob = bytearray(CAPTIONS.to_bytes())
    blob[place] ^= 1
    with pytest.raises(FormatError, match=r"shard\.columns"):
        ColumnTable.from_bytes(bytes(blob), "shard.columns")


def test_arrays_that_contradict_the_number_of_rows_are_an_error():
    four = ColumnTable(CAPTIONS.columns, 4, "", "").to_bytes()
    with pytest.raises(FormatError, match="does not have 4 values of type string"):
        ColumnTable.from_bytes(four, "x")


@pytest.mark.parametrize("rows", [1, 10**12, INT64 - 1])
def test_rows_without_columns_are_an_error(rows):
    with pytest.raises(FormatError, match=rf"x: incomplete columns .*{rows} rows without columns"):
        ColumnTable.from_bytes(ColumnTable((), rows, "", "").to_bytes(), "x")


def test_a_row_prefers_the_users_column_to_a_fact_of_the_same_name():
    fact = Column.of(ColumnSpec("path", ColumnKind.STRING, is_fact=True), ["fact"])
    users = Column.of(ColumnSpec("path", ColumnKind.STRING), ["user's"])
    both = ColumnTable((users, fact), 1, "", "")
    assert both.row(0) == {"path": "user's"}
    assert [both.column("path", is_fact=fact).value(0) for fact in (False, True)] == ["user's", "fact"]


def test_integers_beyond_64_bits_are_an_error_that_names_the_column():
    with pytest.raises(ConfigError, match="column 'n': 9223372036854775808 does not fit"):
        table(("n", "int", [1, INT64, None]))


def test_texts_are_not_numbers():
    with pytest.raises(ConfigError, match="column 'caption'"):
        CAPTIONS.column("caption").numbers()


@pytest.mark.parametrize(
    ("kind", "values", "distinct"),
    [
        ("string", ["b", None, "a", "b", ""], ["b", None, "a", ""]),
        ("int", [2, 2, None, 0], [2, None, 0]),
        ("bool", [True, False, True], [True, False]),
        ("json", [[1], {"a": 2}, [1], None], [[1], {"a": 2}, None]),
        ("float", [], []),
    ],
)
def test_rows_are_grouped_by_value(kind, values, distinct):
    column = Column.of(ColumnSpec("c", ColumnKind(kind)), values)
    first_rows, groups = column.grouped()
    assert column.take(first_rows) == distinct
    assert [distinct[group] for group in groups] == values
