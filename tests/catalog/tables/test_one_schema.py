"""The values of a column in several files are those that one file with all lines has, or the same error."""

import itertools
import json
from datetime import date, datetime, timedelta

import polars as pl
import pytest

from headrace.catalog.tables.metadata_files import in_memory, open_metadata_files
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError

VALUES = (
    None, 1, "x", [], [None], [1], ["x"], [[1.5]], {"a": 1}, {"b": "x", "a": 1.5}, {"a": "x"}, {"a": ["x"]},
    {"a": {"y": [1], "z": None}}, [{"a": 1}], [{"b": "x", "a": 1.5}, None], [{"a": "x"}], [[{"b": 2}]],
)  # fmt: skip

WRITERS = {
    "jsonl": lambda file, row: file.write_text(json.dumps(row) + "\n"),
    "parquet": lambda file, row: pl.DataFrame([row]).write_parquet(file),
    "csv": lambda file, row: pl.DataFrame([row | {"v": json.dumps(row["v"])}]).write_csv(file),
}


def outcome(files, form):
    """The values of the column `v`, or the words about it in an error."""
    try:
        table = in_memory(open_metadata_files([(file, file.name) for file in files], form=form))
    except ConfigError as error:
        return str(error).partition("column ")[2].partition(" is ")[0]
    return [without_nulls(value) for value in table["v"].to_list()]


def without_nulls(value):
    """A value whose objects lack the names that are null; files with other names add these."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.medium
@pytest.mark.parametrize(("one", "other"), list(itertools.product(WRITERS, WRITERS)))
def test_nested_values_of_two_files_are_those_of_one_file(tmp_path, one, other):
    form = TableConfig(types={"v": "json"} if "csv" in {one, other} else {})
    values = [value for value in VALUES if value != "x" or {one, other} != {"csv", "parquet"}]  # "x" is not JSON there
    for number, value in enumerate(values):
        for path, kind in zip("ab", (one, other), strict=True):
            WRITERS[kind](tmp_path / f"{path}{number}.{kind}", {"path": path, "v": value})
    wrong = {}
    for pair in itertools.product(range(len(values)), repeat=2):
        rows = [{"path": path, "v": values[number]} for path, number in zip("ab", pair, strict=True)]
        (tmp_path / "both.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        expected = outcome([tmp_path / "both.jsonl"], form)
        found = outcome([tmp_path / f"a{pair[0]}.{one}", tmp_path / f"b{pair[1]}.{other}"], form)
        if found != expected:
            wrong[str(rows)] = found, expected
    assert wrong == {}


UNITS = ("ms", "us", "ns")


@pytest.mark.parametrize("units", list(itertools.permutations(UNITS, 2)), ids=str)
def test_times_of_several_units_keep_microseconds_also_in_objects(tmp_path, units):
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000)  # noqa: DTZ001 - of a table without zones
    for unit in units:
        values = {
            "at": pl.Series([moment], dtype=pl.Datetime(unit)),
            "w": pl.Series([[{"t": moment}]], dtype=pl.List(pl.Struct({"t": pl.Datetime(unit)}))),
            "long": pl.Series([timedelta(milliseconds=1)], dtype=pl.Duration(unit)),
        }
        pl.DataFrame({"path": [unit], **values}).write_parquet(tmp_path / f"{unit}.parquet")
    table = in_memory(open_metadata_files([(tmp_path / f"{unit}.parquet", unit) for unit in units]))
    assert table["at"].to_list() == [moment] * 2
    assert table["w"].to_list() == [[{"t": moment}]] * 2
    assert table["long"].to_list() == [timedelta(milliseconds=1)] * 2


def test_a_time_beside_text_is_an_error_in_words(tmp_path):
    pl.DataFrame({"path": ["a"], "v": [date(2026, 1, 2)]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"path": ["b"], "v": [True]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(ConfigError, match="column 'v' is true or false, but a date in metadata table a; write"):
        open_metadata_files([(tmp_path / "a.parquet", "a"), (tmp_path / "b.parquet", "b")])


def test_texts_by_number_in_lists_of_one_length_are_text(tmp_path):
    texts = pl.Series([["x"]], dtype=pl.Array(pl.Categorical, 1))
    pl.DataFrame({"path": ["a"], "v": texts}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"path": "b", "v": ["y"]}\n')
    assert outcome([tmp_path / "a.parquet", tmp_path / "b.jsonl"], TableConfig()) == [["x"], ["y"]]


def test_declared_types_of_a_table_without_rows_say_that_there_are_none(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(ConfigError, match="there is no row"):
        open_metadata_files([(tmp_path / "a.jsonl", "a")], form=TableConfig(types={"n": "int"}))


@pytest.mark.parametrize("num_files", [20, 40])
def test_columns_that_single_files_have_are_an_error_before_they_fill_the_memory(tmp_path, num_files):
    for number in range(num_files):
        row = {"path": f"{number}"} | {f"w{number}_{column}": 1 for column in range(2200 // num_files)}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
    files = [(tmp_path / f"{number}.jsonl", f"{number}.jsonl") for number in range(num_files)]
    with pytest.raises(ConfigError, match=r"the metadata tables: 2,201 names .*of which a row has .*one object"):
        open_metadata_files(files)
