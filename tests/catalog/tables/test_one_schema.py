"""The values of a column in several files are those that one file with all lines has, or the same error."""

import itertools
import json

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
