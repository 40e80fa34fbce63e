"""Cells fit the types that a user declares, or are named with their line."""

import polars as pl
import pytest

from headrace.errors import ConfigError
from tests.support.table_forms import by_columns, by_metadata

DECLARED = [  # kind, cells, values, values of JSON
    ("text", ["1.10", "12e4", "007", ""], ["1.10", "12e4", "007", None]),
    ("int", ["007", "+5", " -3 ", ""], [7, 5, -3, None]),
    ("float", ["1.10", "12e4", "", "7"], [1.1, 120000.0, None, 7.0]),
    ("float", ["", ""], [None, None]),
    ("int", [""], [None]),
    ("bool", ["true", "0", "1", "False", ""], [True, False, True, False, None]),
    ("json", ['{"a": 1}', '{"b": [1.5]}', ""], [{"a": 1, "b": None}, {"a": None, "b": [1.5]}, None]),
    ("json", ["1", "2.5"], [1.0, 2.5]),
    ("json", ['"x"', "null"], ["x", None]),
    ("json", ["[1]", "[]"], [[1], []]),
    ("json", [""], [None]),
]


@pytest.mark.parametrize(("kind", "cells", "values"), DECLARED)
def test_a_declared_type_is_the_type_of_the_column(tmp_path, kind, cells, values):
    file = tmp_path / "t.tsv"
    file.write_text("path\tv\n" + "".join(f"{row}\t{cell}\n" for row, cell in enumerate(cells)))
    form = {"quotes": "none", "types": {"v": kind}}
    assert by_metadata(file, **form)["v"].to_list() == by_columns(file, **form)["v"].to_list() == values
    pl.DataFrame({"path": list(map(str, range(len(cells)))), "v": cells}).write_parquet(tmp_path / "t.parquet")
    found = by_metadata(tmp_path / "t.parquet", types={"v": kind})["v"].to_list()
    assert found == (cells if kind == "text" else values)  # the text of Parquet may be empty


@pytest.mark.parametrize(
    ("kind", "cell"),
    [("int", "1.0"), ("int", "12e4"), ("int", "9223372036854775808"), ("int", "x"), ("float", "word"), ("float", "1,5"),
     ("bool", "yes"), ("bool", "2"), ("json", "{a: 1}"), ("json", "NaN"), ("json", '{"a": 1, "a": 2}')],
)  # fmt: skip
def test_a_cell_that_does_not_fit_its_declared_type_is_an_error_with_its_line(tmp_path, kind, cell):
    file = tmp_path / "t.tsv"
    file.write_text(f"path\tv\na\t1\n\nb\t{cell}\n")
    with pytest.raises(ConfigError, match=rf"line 4: column 'v': expected .*types: {kind}"):
        by_metadata(file, quotes="none", types={"v": kind})
    pl.DataFrame({"path": ["a", "b"], "v": ["1", cell]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match=rf"row 2: column 'v': expected .*types: {kind}"):
        by_metadata(tmp_path / "t.parquet", types={"v": kind})


@pytest.mark.parametrize(("kind", "dtype"), [("float", pl.Float64), ("int", pl.Int64), ("bool", pl.Boolean)])
@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_a_column_of_nulls_has_its_declared_type(tmp_path, kind, dtype, name):
    rows = pl.DataFrame({"path": ["a"], "v": [None]})
    (rows.write_ndjson if name.endswith("jsonl") else rows.write_parquet)(tmp_path / name)
    assert by_metadata(tmp_path / name, types={"v": kind}).schema["v"] == dtype


@pytest.mark.parametrize(
    ("kind", "values"), [("int", [1.5]), ("bool", [3]), ("float", [True]), ("int", [[1]]), ("text", [[1]])]
)
def test_values_of_parquet_that_do_not_fit_are_an_error_with_their_row(tmp_path, kind, values):
    pl.DataFrame({"path": ["a"], "v": values}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="row 1: column 'v': expected"):
        by_metadata(tmp_path / "t.parquet", types={"v": kind})
