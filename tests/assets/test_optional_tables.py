"""While an optional table is absent, *Materialize all* makes everything except what reads it, and says what waits."""

import pytest

from headrace.format.beside.views import VIEWS
from headrace_dagster.testing import materialized_dataset
from tests.backfills import materialize_all
from tests.support.projects import Graph, Project
from tests.support.undrawn import nothing_drawn

pytestmark = [
    pytest.mark.medium,
    pytest.mark.usefixtures("undrawn"),
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning"),  # Dagster's own call
]

MADE = {
    "by_the_audio": "duration_seconds > 0",
    "by_the_metadata": "title != 'title 0'",
    "by_its_set": "metadata.title != 'title 0'",
    "by_another_optional_table": "snr > 1",
}
WAITING = {
    "by_the_absent_table": "caption like 'c%'",
    "by_the_absent_set": "captions.caption like 'c%'",
    "by_two_tables": "snr > 1 and caption like 'c%'",
}
EVERY_VIEW = [(name, name in MADE) for name in (*MADE, *WAITING)]


def write_table(project, name, column):
    """A table with a value for each tone. The values of `snr` are numbers."""
    rows = "".join(f"tone{i:03d}.wav,{i if column == 'snr' else f'c{i}'}\n" for i in range(6))
    (project.folder / f"{name}.csv").write_text(f"path,{column}\n{rows}")


def project_in(folder, partitions_per_run=1):
    project = Project(folder)
    project.write_titled_tones(6)
    write_table(project, "scores", "snr")
    project.write_yaml(
        shards={"samples_per_shard": 2, "partitions": {"train": 2, "test": 1}},
        columns=[
            {"name": name, "table": str(folder / f"{name}.csv"), "optional": True} for name in ("scores", "captions")
        ],
        views={name: {"where": where} for name, where in (MADE | WAITING).items()},
        runs={"partitions_per_run": partitions_per_run},
    )
    return project


def from_the_testing_module(project):
    with materialized_dataset(project.dataset(), smoke_test=True) as made:
        yield Graph(project, made.instance), made.failures() == []


def by_a_backfill(project):
    graph = Graph(project)
    yield graph, all(run.success for run in materialize_all(graph))


@pytest.fixture(
    scope="module",
    params=[(from_the_testing_module, 1), (by_a_backfill, 1), (by_a_backfill, 2)],
    ids=["in a test", "backfill", "backfill of several partitions"],
)
def made(request, tmp_path_factory):
    """A graph of which everything was materialized once, and whether it succeeded."""
    materialize, partitions_per_run = request.param
    with nothing_drawn():
        yield from materialize(project_in(tmp_path_factory.mktemp("optional"), partitions_per_run))


def metadata(graph, key):
    event = graph.instance.get_latest_materialization_event(key)
    return event.asset_materialization.metadata if event else None


def test_nothing_fails(made):
    assert made[1]


@pytest.mark.parametrize(("name", "is_made"), EVERY_VIEW)
def test_only_views_that_read_the_absent_table_wait(made, name, is_made):
    graph, _ = made
    assert (graph.project.output / VIEWS / name).exists() == is_made
    assert ("waits_for" in metadata(graph, graph.keys.view(name))) == (not is_made)


@pytest.mark.parametrize(("name", "is_made"), [("metadata", True), ("scores", True), ("captions", False)])
def test_only_the_set_of_the_absent_table_waits(made, name, is_made):
    graph, _ = made
    assert (graph.project.output / "columns" / name / "snapshots").exists() == is_made
    for key in (graph.keys.columns(name), graph.keys.columns_index(name)):
        assert ("waits_for" in metadata(graph, key)) == (not is_made)


def test_the_report_is_made(made):
    graph, _ = made
    assert "title != &#x27;title 0&#x27;" in (graph.project.output / "report.html").read_text()


def test_what_waits_is_made_once_the_table_comes(tmp_path):
    graph = Graph(project_in(tmp_path))
    materialize_all(graph)
    write_table(graph.project, "captions", "caption")
    assert all(run.success for run in materialize_all(graph, "again"))
    assert [name for name in WAITING if not (graph.project.output / VIEWS / name).exists()] == []
    assets = [graph.keys.columns_index("captions"), *map(graph.keys.view, WAITING), graph.keys.dataset_report]
    assert [(graph.status(key), "waits_for" in metadata(graph, key)) for key in assets] == [("FRESH", False)] * 5
