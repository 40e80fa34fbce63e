"""A table of columns in the graph: a changed row makes one partition stale and writes no tar."""

import dagster as dg
import pytest

from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.column_table import ColumnSpec
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace_dagster.resources.storage import StorageResource
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count
from tests.support.projects import Graph, Project, touch
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


def write_captions(project, changes=(), more=""):
    captions = {f"tone{i:03d}.wav": f"caption {i}" for i in range(7)} | dict(changes)
    rows = "".join(f"{path},{text},{len(text)}\n" for path, text in captions.items())
    (project.folder / "captions.csv").write_text(f"path,caption,length\n{rows}{more}")
    touch(project.folder / "captions.csv", sum(map(len, [rows, more])))


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("columns"))
    project.write_tones(7)
    write_captions(project)
    project.write_yaml(columns=[{"name": "captions", "table": str(project.folder / "captions.csv")}])
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def captions(daemon):
    """Caption of each sample, from the newest snapshots."""
    storage, config = StorageResource(), daemon.config
    audio = storage.audio(config)
    snapshot = read_snapshot(audio).snapshot
    columns, found = fitting_columns(storage.columns(config, "captions"), snapshot), {}
    for shard in read_table(audio, snapshot).names():
        values = columns.read(shard).column("caption")
        found |= zip(read_index(audio, shard).keys(), values.take(range(len(values))), strict=True)
    return {key.rpartition("-")[0]: caption for key, caption in found.items()}


def audio_files(daemon):
    files = (daemon.project.output / "audio").rglob("*")
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files if path.is_file()}


def last(daemon, key):
    event = daemon.instance.get_latest_materialization_event(key)
    return event.asset_materialization.metadata


def checks(daemon, key):
    """Name of each check of an asset → whether its newest result is a success."""
    graph = daemon.definitions.resolve_asset_graph()
    keys = [check for check in graph.asset_check_keys if check.asset_key == key]
    records = daemon.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {key.name: record.event.dagster_event.event_specific_data.passed for key, record in records.items()}


def test_columns_are_built_with_the_audio_and_summarized(daemon):
    assert captions(daemon) == {f"tone{i:03d}": f"caption {i}" for i in range(7)}
    index = daemon.project.keys.columns_index("captions")
    assert checks(daemon, index) == dict.fromkeys(("columns_fit_audio", "rows_matched", "samples_have_rows"), True)
    metadata = last(daemon, index)
    assert metadata["fits_snapshot"].value == 1
    summary = metadata["columns_picture"].value
    assert "| caption | string | 0 (0.0%) | 7 | 9 characters | 9 characters | 9 characters |" in summary
    assert "| length | int | 0 (0.0%) | 1 | 9 | 9 | 9 | 9 (7) |" in summary
    facts = fitting_columns(
        StorageResource().columns(daemon.config, "metadata"),
        read_snapshot(StorageResource().audio(daemon.config)).snapshot,
    )
    assert ColumnSpec("duration_seconds", "float", is_fact=True) in facts.specs


def test_a_changed_caption_joins_one_partition_again_and_touches_no_tar(daemon):
    before = audio_files(daemon)
    write_captions(daemon.project, {"tone003.wav": "another caption"}, "nowhere.wav,x,1\n")
    made = daemon.settle()
    assert audio_files(daemon) == before
    assert captions(daemon)["tone003"] == "another caption"
    (joined,) = [run for run in made if "captions_columns" in run.assets]
    assert joined.partition == daemon.project.partition_of("tone003.wav")
    assert not joined.assets & {"audio_shards", "metadata_columns", "loader_smoke_test", "sizes_index"}
    assert count(made, "captions_columns_index") == 1
    assert all(run.success for run in made)
    index = daemon.project.keys.columns_index("captions")
    assert checks(daemon, index)["rows_matched"] is False
    assert daemon.settle() == []


def test_an_invalid_table_fails_a_check_and_its_columns_stay_as_they_were(daemon):
    write_captions(daemon.project, more="tone003.wav,another,7\n")
    daemon.project.write_tone("tone003", hz=999)
    made = daemon.settle()
    assert checks(daemon, daemon.project.keys.catalog)["column_tables"] is False
    assert captions(daemon)["tone003"] == "caption 3"
    assert count(made, "audio_shards") == 1  # the audio goes on
    assert daemon.settle() == []


def test_a_new_set_over_an_existing_output_writes_no_tar(daemon):
    before = audio_files(daemon)
    (daemon.project.folder / "scores.csv").write_text("path,snr\ntone001.wav,12.5\n")
    entries = [
        *daemon.project.settings["columns"],
        {"name": "scores", "table": str(daemon.project.folder / "scores.csv")},
    ]
    daemon.project.write_yaml(columns=entries)
    daemon.reload()
    made = daemon.settle()
    assert audio_files(daemon) == before
    assert count(made, "scores_columns") == len(daemon.config.partitioning().partition_keys())
    assert count(made, "audio_shards") == count(made, "captions_columns") == 0
    index = daemon.project.keys.columns_index("scores")
    assert checks(daemon, index) == {"columns_fit_audio": True, "rows_matched": True, "samples_have_rows": False}
    assert isinstance(index, dg.AssetKey)


def optional_scores(daemon):
    """A set whose table is not there yet, and views that read it by both spellings of its column."""
    table = daemon.project.folder / "scores.csv"
    scores = {"name": "scores", "table": str(table), "path": "file", "optional": True}
    views = {"loud": {"where": "snr > 10"}, "louder": {"where": "scores.snr > 10"}, "all": {"where": "length > 0"}}
    daemon.project.write_yaml(columns=[*daemon.project.settings["columns"], scores], views=views)
    daemon.reload()
    return table


def test_an_optional_table_may_come_later_and_its_views_wait(daemon):
    table, folder = optional_scores(daemon), daemon.project.output
    made = daemon.settle()
    assert all(run.success for run in made)
    assert count(made, "scores_columns") == count(made, "loud_view") == count(made, "louder_view") == 0
    assert count(made, "all_view") == count(made, "dataset_report") == 1
    assert checks(daemon, daemon.project.keys.catalog)["column_tables"] is True
    assert daemon.settle() == []

    table.write_text("file,snr\n" + "".join(f"tone{i:03d}.wav,{4 * i}\n" for i in range(7)))
    made = daemon.settle()
    assert all(run.success for run in made)
    assert count(made, "audio_shards") == 0
    assert count(made, "loud_view") == count(made, "louder_view") == 1
    assert daemon.settle() == []

    snapshots = sorted((folder / "columns" / "scores" / "snapshots").iterdir())
    table.unlink()
    made = daemon.settle()
    assert all(run.success for run in made)
    assert sorted((folder / "columns" / "scores" / "snapshots").iterdir()) == snapshots
    assert checks(daemon, daemon.project.keys.catalog)["column_tables"] is False
    assert daemon.settle() == []


def test_what_waits_for_an_optional_table_makes_nothing_and_says_so_when_it_is_started_by_hand(daemon):
    optional_scores(daemon)
    daemon.settle()
    graph, keys = Graph(daemon.project, daemon.instance), daemon.project.keys
    for key, partition in (
        (keys.columns("scores"), "test-0000"),
        (keys.columns_index("scores"), None),
        (keys.view("loud"), None),
    ):
        result = graph.run(key, partition)
        assert result.success
        made = daemon.instance.get_latest_materialization_event(key).asset_materialization
        assert made.metadata["waits_for"].value == "the optional table of the columns scores"
    assert [name for name in ("columns/scores", "views/loud") if (daemon.project.output / name).exists()] == []
    assert daemon.settle() == []
