"""Checks the page of the catalog: rejects with their whole reasons, one in a line, and descriptions of its columns."""

import pytest

from headrace.catalog.rows.schemas import RECORDING_SCHEMA
from headrace.format.manifests.manifests import ManifestRejection
from headrace_dagster.assets.catalog_columns import DESCRIPTIONS, catalog_schema
from headrace_dagster.assets.metadata import REASON, refused_table
from tests.support.projects import Graph, Project

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]
SOUND = b"RIFF no sound"


@pytest.fixture
def scanned(tmp_path):
    """The result of a scan after which three files are newly rejected, one of which was a recording."""
    project = Project(tmp_path)
    project.write_tones(2)
    project.write_yaml()
    graph = Graph(project)
    assert graph.scan().success
    for name in ("tone001", "new_one", "new_two"):
        (project.recordings / f"{name}.wav").write_bytes(SOUND)
    return graph.scan()


def test_of_a_scan(scanned):
    events = [event.event_specific_data for event in scanned.all_events if event.is_step_materialization]
    (made,) = [event.materialization for event in events if event.materialization.asset_key.path[-1] == "catalog"]
    first, second, *_ = made.metadata
    assert (first, second) == ("rejected_new_table", "rejected_table")
    for name in (first, second):
        table = made.metadata[name]
        assert [column.name for column in table.schema.columns] == [REASON]
        texts = [record.data[REASON] for record in table.records]
        assert len(texts) == 3
        assert all(text.partition(".wav: ")[2] for text in texts)
    (check,) = [one for one in scanned.get_asset_check_evaluations() if one.check_name == "new_rejects"]
    title, _, *lines = check.description.split("\n")
    assert title == "3 files or rows are newly rejected, 1 of them usable until now"
    assert [line[:12] for line in lines] == ["- tone001.wa", "- new_one.wa", "- new_two.wa"]
    assert {name: number.value for name, number in check.metadata.items()} == {
        "rejected_usable_before": 1,
        "rejected_never_usable": 2,
    }


def test_every_column_of_the_catalog_has_a_description():
    assert DESCRIPTIONS.keys() == RECORDING_SCHEMA.keys()
    schema = catalog_schema({"path": "String", "title": "String"})
    assert [column.description for column in schema.columns] == [
        "path of the recording below the source",
        "column of your metadata table",
    ]


@pytest.mark.parametrize("key", ["", "a_key"])
def test_of_a_manifest(key):
    table = refused_table([ManifestRejection("a.wav", "silent", "no sound", key)])
    first, *_ = table.schema.columns
    assert first.name == REASON
    assert table.records[0].data[REASON] == "a.wav: no sound"
    assert table.records[0].data.get("key", "") == key
