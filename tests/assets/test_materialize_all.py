"""A backfill of all assets makes the catalog first, then the partitions of that catalog, then what closes them."""

import dagster as dg
import pytest

from tests.backfills import materialize_all
from tests.support.built import BuiltGraph
from tests.support.projects import Graph, Project
from tests.support.undrawn import nothing_drawn

pytestmark = [
    pytest.mark.medium,
    pytest.mark.usefixtures("undrawn"),
    pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning"),  # Dagster's own call
]

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]


def project_in(folder, partitions_per_run=1):
    project = Project(folder)
    project.write_titled_tones(8)
    project.write_yaml(
        latents=LATENTS,
        shards={"samples_per_shard": 2, "partitions": {"train": 2, "test": 1}},
        views={"some": {"where": "title != 'title 3'"}},
        runs={"partitions_per_run": partitions_per_run},
    )
    return project


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)], ids=["apart", "together"])
@nothing_drawn()
def built(request, tmp_path_factory):
    """A graph that was empty before one backfill of everything, whose runs are kept in `first`."""
    graph = Graph(project_in(tmp_path_factory.mktemp("all"), request.param))
    graph.project.first = materialize_all(graph)
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def not_fresh(graph):
    """All assets and partitions that the interface does not show as fresh."""
    assets = graph.definitions.resolve_asset_graph()
    return [
        (key.path[-1], partition)
        for key in sorted(assets.get_all_asset_keys())
        for partition in (graph.partitions if assets.get(key).is_partitioned else [None])
        if graph.status(key, partition) != "FRESH"
    ]


def assert_in_order(graph, made):
    assert [run for run in made if not run.success] == []
    assert made[0].assets == {"catalog"}
    assert "sizes_index" in made[-1].assets or "dataset_report" in made[-1].assets
    assert not_fresh(graph) == []


def test_of_an_empty_instance(graph):
    assert_in_order(graph, graph.project.first)
    assert sum(graph.project.sizes().values()) == 8


def deletes(project):
    for number in range(4):
        (project.recordings / f"tone{number:03d}.wav").unlink()


def adds(project):
    project.write_tone("more", hz=999)


def changes(project):
    project.write_tone("tone004", hz=999)


def describes(project):
    table = project.folder / "metadata.csv"
    table.write_text(table.read_text().replace("title 5\n", "another\n"))


def rejects(project):
    (project.recordings / "tone002.wav").write_bytes(b"no sound")


CHANGES = (deletes, adds, changes, describes, rejects)


def test_after_all_changes_of_the_source_at_once(graph):
    for change in CHANGES:
        change(graph.project)
    assert_in_order(graph, materialize_all(graph, "again"))


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_of_the_source(graph, change):
    change(graph.project)
    assert_in_order(graph, materialize_all(graph, "again"))


@pytest.mark.slow
def test_after_a_change_of_the_yaml(graph):
    latents = [{"name": "mel", "encoder": {"kind": "log_mel", "num_mels": 8}}]
    graph.project.write_yaml(audio={"bits_per_sample": 24}, latents=latents)
    graph.reload()
    assert_in_order(graph, materialize_all(graph, "again"))


@pytest.mark.slow
def test_without_a_change(graph):
    before = graph.project.files()
    assert_in_order(graph, materialize_all(graph, "again"))
    assert graph.project.files() == before


def test_another_catalog_makes_no_partition_stale_that_it_leaves_as_it_was(graph):
    changes(graph.project)
    assert graph.scan().success
    assert graph.stale_partitions() == [graph.project.partition_of("tone004.wav")]
    assert graph.status(graph.keys.catalog) == "FRESH"


@pytest.mark.slow
def test_a_catalog_with_the_version_of_an_older_release_is_no_obstacle(graph):
    """Its data version was its digest: one backfill of everything makes all fresh again."""
    event = dg.AssetMaterialization(graph.keys.catalog, tags={"dagster/data_version": "a digest"})
    graph.instance.report_runless_asset_event(event)
    assert graph.stale_partitions() == graph.partitions
    assert_in_order(graph, materialize_all(graph, "again"))
