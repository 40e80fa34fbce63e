"""Columns of intervals: their arrays can be read by numpy alone, and arrays that do not fit are an error."""

import sys

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.format import tables
from headrace.format.beside.column_table import ColumnTable
from tests.support.column_table import table

WORDS = [[{"start": 0.0, "end": 1.0, "word": "ja"}, {"start": 1.5, "end": 2.0, "word": "so"}], None, []]
STORED = table(("words", "intervals", WORDS))


def test_times_are_arrays_and_other_names_are_json():
    arrays, _ = tables.unpack(STORED.to_bytes(), "words.columns")
    assert arrays["0.starts"].tolist() == [0, 1.5]
    assert arrays["0.ends"].tolist() == [1, 2]
    assert arrays["0.rows"].tolist() == [0, 2, 2, 2]
    assert arrays["0.values"].tobytes() == b'[{"word":"ja"},{"word":"so"}][]'
    assert ColumnTable.from_bytes(STORED.to_bytes(), "words.columns").columns[0].take(range(3)) == WORDS


def test_intervals_as_text_are_json():
    (column,) = STORED.columns
    assert column.as_text().take(range(3)) == [
        '[{"start":0.0,"end":1.0,"word":"ja"},{"start":1.5,"end":2.0,"word":"so"}]',
        None,
        "[]",
    ]


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("starts", np.array([0.0, 3.0]), "end >= start >= 0"),
        ("starts", np.array([-1.0, 1.5]), "end >= start >= 0"),
        ("starts", np.array([np.nan, 1.5]), "end >= start >= 0"),
        ("ends", np.array([1.0, np.inf]), "end >= start >= 0"),
        ("starts", np.array([0, 1]), "F64 starts and ends"),
        ("ends", np.array([1.0]), "F64 starts and ends"),
        ("rows", np.array([0, 2, 1, 2]), "2 intervals are not divided among 3 rows"),
        ("rows", np.array([0, 2, 2, 3]), "not divided"),
        ("rows", np.array([1, 2, 2, 2]), "not divided"),
        ("rows", np.array([0, 2, 2]), "not divided"),
        ("rows", np.array([0.0, 2, 2, 2]), "F64 starts and ends"),
    ],
)
def test_arrays_that_do_not_fit_are_an_error(name, array, expected):
    arrays, metadata = tables.unpack(STORED.to_bytes(), "words.columns")
    blob = tables.pack({**arrays, f"0.{name}": array}, metadata)
    with pytest.raises(FormatError, match=f"words.columns: incomplete columns .*{expected}"):
        ColumnTable.from_bytes(blob, "words.columns")


def test_a_row_with_more_times_than_other_names_is_an_error():
    arrays, metadata = tables.unpack(STORED.to_bytes(), "words.columns")
    blob = tables.pack({**arrays, "0.rows": np.array([0, 1, 1, 2])}, metadata)
    (column,) = ColumnTable.from_bytes(blob, "words.columns").columns
    with pytest.raises(FormatError, match="column 'words', row 0"):
        column.value(0)


def test_intervals_are_read_without_a_call_for_each_of_their_values():
    column = table(("words", "intervals", [[{"start": n, "end": n + 1, "word": "ja"} for n in range(200)]])).columns[0]
    calls = []
    sys.setprofile(lambda _, event, __: calls.append(event) if event == "call" else None)
    try:
        found = column.value(0)
    finally:
        sys.setprofile(None)
    assert len(found) == 200
    assert len(calls) < 300
