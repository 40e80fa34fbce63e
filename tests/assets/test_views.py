"""A view in the graph: it is evaluated after the columns, again when they change, and never when nothing did."""

import pytest

from headrace import StreamingDataset
from headrace.format.beside.view_files import read_view
from headrace_dagster.resources.storage import StorageResource
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count
from tests.support.projects import Project, touch
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]

COUNT = 7


def write_scores(project, low=3):
    """Tones below `low` have a low score."""
    rows = "".join(f"tone{i:03d}.wav,{5 if i < low else 30},{'ab'[i == 6]}\n" for i in range(COUNT))
    (project.folder / "scores.csv").write_text(f"path,snr,speaker\n{rows}")
    touch(project.folder / "scores.csv", float(low))


def write_yaml(project, where="snr > 20", **more):
    views = {"clean": {"where": where}, "even": {"balance": {"by": "scores.speaker", "alpha": 0.0}}}
    table = {"name": "scores", "table": str(project.folder / "scores.csv")}
    project.write_yaml(columns=[table], views=views | more)


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("views"))
    project.write_tones(COUNT)
    write_scores(project)
    write_yaml(project)
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def view(daemon, name="clean"):
    return read_view(StorageResource().output(daemon.config).at(f"views/{name}"))


def test_views_are_built_with_the_data_set_and_read_by_the_loader(daemon):
    assert view(daemon).snapshot.num_chosen == 4
    assert view(daemon, "even").snapshot.num_drawn == 12
    for name, size in (("clean", 4), ("even", 12)):
        assert StreamingDataset(remote=str(daemon.project.output), view=name).size == size
    key = daemon.project.keys.view("clean")
    metadata = daemon.instance.get_latest_materialization_event(key).asset_materialization.metadata
    assert metadata["kept_share"].value == pytest.approx(4 / 7, abs=1e-5)
    assert metadata["definition"].value == "where snr > 20"
    page = (daemon.project.output / "report.html").read_text()
    assert "where snr &gt; 20" in page
    assert daemon.settle() == []


def test_changed_columns_make_the_view_again_and_nothing_of_the_audio(daemon):
    write_scores(daemon.project, low=5)
    made = daemon.settle()
    assert view(daemon).snapshot.num_chosen == 2
    assert count(made, "clean_view") == 1
    assert count(made, "audio_shards") == count(made, "loader_smoke_test") == 0
    assert count(made, "dataset_report") == 1
    assert daemon.settle() == []


def test_a_changed_definition_makes_only_this_view_again(daemon):
    write_yaml(daemon.project, where="snr > 20 or speaker = 'a'")
    daemon.reload()
    made = daemon.settle()
    assert view(daemon).snapshot.num_chosen == 7
    assert [sorted(run.assets) for run in made] == [["clean_view", "dataset_report"]]


def test_a_view_that_chooses_nothing_fails_and_readers_keep_the_last_one(daemon):
    write_yaml(daemon.project, where="snr > 1000")
    daemon.reload()
    made = daemon.settle()
    assert made
    assert not any(run.success for run in made)
    assert view(daemon).snapshot.definition.where == "snr > 20"
    graph = daemon.definitions.resolve_asset_graph()
    (check,) = (key for key in graph.asset_check_keys if key.asset_key == daemon.project.keys.view("clean"))
    records = daemon.instance.event_log_storage.get_latest_asset_check_execution_by_key([check])
    assert not records[check].event.dagster_event.event_specific_data.passed
