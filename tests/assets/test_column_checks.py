"""The checks of a set of columns: those of a table only warn, and all pass while an optional table is not there."""

import dagster as dg
import pytest

from headrace.config.content import METADATA_SET
from headrace_dagster.assets.column_checks import (
    COMPLETE,
    FIT,
    MATCHED,
    READ,
    column_check_specs,
    tables_spec,
    tables_verdict,
)
from tests.support.projects import Graph, Project

KEY = dg.AssetKey(["a", "captions_columns_index"])


@pytest.mark.parametrize(("name", "checks"), [(METADATA_SET, [FIT]), ("captions", [FIT, MATCHED, COMPLETE])])
def test_a_set_that_comes_from_a_table_has_checks_of_the_table(name, checks):
    specs = column_check_specs(name, KEY)
    assert [spec.name for spec in specs] == checks
    assert all(spec.description and spec.asset_key == KEY for spec in specs)


def test_the_catalog_has_one_check_for_all_tables():
    assert (tables_spec(KEY).name, tables_spec(KEY).asset_key) == (READ, KEY)


INVALID, GONE = "scores.csv: row 2: two rows for one key", "captions.csv"
ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@pytest.mark.parametrize(
    ("faults", "gone", "severity"),
    [
        ([], [], None),
        ([], [GONE], WARN),
        ([], [GONE, "tags.csv"], WARN),
        ([INVALID], [], ERROR),
        ([INVALID], [GONE], ERROR),
        ([INVALID, "tags.csv: there is no such file"], [GONE], ERROR),
    ],
)
def test_the_check_of_tables_names_every_table_that_is_invalid_or_gone(faults, gone, severity):
    result = tables_verdict(faults, gone, {"rows": 3}, KEY)
    assert (result.check_name, result.asset_key, result.metadata["rows"].value) == (READ, KEY, 3)
    assert result.passed == (severity is None)
    assert severity in {None, result.severity}
    description = result.description or ""
    assert [line for line in [*faults, *gone] if line not in description] == []
    assert ("Put the table back" in description) == bool(gone)


def absent(table):
    table.unlink()


def contradictory(table):
    table.write_text("path,snr\ntone000.wav,1\ntone000.wav,2\n")


@pytest.mark.medium
@pytest.mark.parametrize("harm", [absent, contradictory])
def test_a_scan_names_an_optional_table_that_is_gone_beside_a_table_that_cannot_be_read(tmp_path, harm):
    project = Project(tmp_path)
    project.write_tones(2)
    tables = {name: tmp_path / f"{name}.csv" for name in ("captions", "scores")}
    for table in tables.values():
        table.write_text("path,snr\ntone000.wav,1\n")
    project.write_yaml(
        columns=[{"name": name, "table": str(table), "optional": name == "captions"} for name, table in tables.items()]
    )
    graph = Graph(project)
    graph.scan()
    tables["captions"].unlink()
    harm(tables["scores"])
    (said,) = [one for one in graph.scan().get_asset_check_evaluations() if one.check_name == READ]
    assert not said.passed
    assert said.severity == ERROR
    assert [name for name in tables if name not in said.description] == []
