"""After any change of the source or the YAML, the sensors end at the right snapshot without superfluous runs."""

import sys

import dagster as dg
import pytest
import yaml

from headrace.catalog.stored.header import HEADER_PATH
from headrace_dagster.resources.storage import StorageResource
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count, partitions_made
from tests.support.projects import Project, touch
from tests.support.undrawn import nothing_drawn

LATENTS = [{"name": "mel", "encoder": {"kind": "log_mel"}}]


pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]


def unsettled(folder):
    project = Project(folder)
    project.write_titled_tones(12)
    return Daemon(project)


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    daemon = unsettled(tmp_path_factory.mktemp("sensors"))
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def test_a_first_look_builds_everything_once(tmp_path):
    daemon = unsettled(tmp_path)
    project = daemon.project
    made = daemon.settle()
    assert all(run.success for run in made)
    assert sorted(partitions_made(made)) == sorted(project.config().partitioning().partition_keys())
    for asset in ("catalog", "sizes_index", "loader_smoke_test", "dataset_report"):
        assert count(made, asset) == 1, asset
    assert sum(project.sizes().values()) == 12


def test_sensors_use_the_storage_of_the_assets(tmp_path):
    project = Project(tmp_path)
    project.write_tones(3)
    project.write_yaml(
        source={"uri": "recordings", "settle_seconds": 0}, output={"uri": "output"}, splits={"train": 1.0}, shards={}
    )
    daemon = Daemon(project, storage=StorageResource(root=str(tmp_path)))
    assert all(run.success for run in daemon.settle())
    assert sum(project.sizes().values()) == 3


def test_nothing_is_started_when_nothing_changed(daemon):
    assert daemon.settle() == []
    assert daemon.reasons == {"source_changes": "no change", "stale_partitions": "up to date"}


def test_a_restart_starts_nothing(daemon):
    daemon.restart()
    assert daemon.settle() == []


def test_one_changed_file_costs_two_runs_and_makes_one_partition(daemon):
    daemon.project.write_tone("tone004", hz=999)
    made = daemon.settle()
    assert partitions_made(made) == [daemon.project.partition_of("tone004.wav")]
    assert len(made) == 2
    assert all(run.success for run in made)
    assert count(made, "loader_smoke_test") == 1


def test_a_change_that_is_undone_is_built_twice_and_ends_where_it_began(daemon):
    sizes = daemon.project.sizes()
    daemon.project.write_tone("tone004", hz=999)
    assert len(daemon.settle()) == 2
    assert daemon.project.sizes() != sizes
    daemon.project.write_tone("tone004", hz=204)
    assert len(daemon.settle()) == 2
    assert daemon.project.sizes() == sizes


@pytest.mark.slow
def test_going_back_and_forth_does_not_count_as_failing(daemon):
    for _ in range(4):
        for hz in (999, 204):
            daemon.project.write_tone("tone004", hz=hz)
            assert len(daemon.settle()) == 2


def test_a_deleted_file_leaves_its_partition(daemon):
    partition = daemon.project.partition_of("tone007.wav")
    (daemon.project.recordings / "tone007.wav").unlink()
    made = daemon.settle()
    assert partitions_made(made) == [partition]
    assert sum(daemon.project.sizes().values()) == 11


def test_a_renamed_folder_moves_its_recordings(daemon):
    for i in range(3):
        daemon.project.write_tone(f"old/more{i}", hz=700 + i)
    daemon.settle()
    (daemon.project.recordings / "old").rename(daemon.project.recordings / "new")
    made = daemon.settle()
    assert all(run.success for run in made)
    assert len(partitions_made(made)) == len(set(partitions_made(made)))
    assert count(made, "catalog") == count(made, "sizes_index") == 1
    assert sum(daemon.project.sizes().values()) == 15


def test_a_changed_metadata_row_makes_its_partition(daemon):
    table = daemon.project.folder / "metadata.csv"
    table.write_text(table.read_text().replace("title 3\n", "another title\n"))
    made = daemon.settle()
    assert partitions_made(made) == [daemon.project.partition_of("tone003.wav")]
    assert len(made) == 2


def test_touched_files_cost_one_look_and_build_nothing(daemon):
    for path in daemon.project.recordings.iterdir():
        touch(path, -1000.0)
    made = daemon.settle()
    assert [sorted(run.assets) for run in made] == [["catalog"]]


def test_a_changed_yaml_makes_what_it_touches(daemon):
    daemon.project.write_yaml(audio={"bits_per_sample": 24})
    daemon.reload()
    made = daemon.settle()
    assert sorted(partitions_made(made)) == sorted(daemon.project.config().partitioning().partition_keys())
    assert count(made, "sizes_index") == 1
    daemon.project.write_yaml(loader={"num_workers": 0, "shuffle_buffer": 7})
    daemon.reload()
    assert [sorted(run.assets) for run in daemon.settle()] == [["dataset_report", "loader_smoke_test"]]


def test_nothing_starts_while_the_yaml_file_differs_from_the_loaded_one(daemon):
    """A run would load the new file, and the sensors would never see what the old one asks for."""
    project, path = daemon.project, daemon.project.datasets / "tones.yaml"
    loaded = path.read_text()
    project.write_tone("tone004", hz=999)
    for other in (loaded + "audio: {bits_per_sample: 24}\n", loaded + "adio: {}\n"):
        path.write_text(other)
        assert daemon.settle() == []
        assert "held back: the YAML file of tones changed" in daemon.reasons["source_changes"]
    path.write_text(loaded)
    assert daemon.run(*daemon.tick("source_changes")).success
    path.unlink()
    assert daemon.tick("stale_partitions") == []
    assert "held back" in daemon.reasons["stale_partitions"]
    path.write_text(loaded)
    assert partitions_made(daemon.settle()) == [project.partition_of("tone004.wav")]


def test_a_changed_layout_is_scanned_for_first_and_makes_every_partition_once(daemon):
    daemon.project.write_yaml(shards={"samples_per_shard": 2, "partitions": {"train": 2, "test": 2}})
    daemon.reload()
    assert daemon.tick("stale_partitions") == []
    assert daemon.reasons["stale_partitions"] == "waiting for a scan of the source"
    made = daemon.settle()
    assert sorted(partitions_made(made)) == sorted(daemon.project.config().partitioning().partition_keys())
    assert count(made, "catalog") == count(made, "sizes_index") == 1
    assert sum(daemon.project.sizes().values()) == 12


def test_a_catalog_without_header_is_scanned_once_and_nothing_is_built(daemon):
    (daemon.project.output / HEADER_PATH).unlink()
    assert [sorted(run.assets) for run in daemon.settle()] == [["catalog"]]
    assert daemon.reasons == {"source_changes": "no change", "stale_partitions": "up to date"}


def test_a_source_that_takes_several_ticks_to_list_is_scanned_as_any_other(daemon):
    daemon.look_seconds = -1.0  # one chunk in each tick
    daemon.project.write_tone("tone004", hz=999)
    assert daemon.tick("source_changes") == []
    assert daemon.reasons["source_changes"] == "listing the source: 12 files so far"
    made = daemon.settle()
    assert partitions_made(made) == [daemon.project.partition_of("tone004.wav")]
    assert count(made, "catalog") == 1
    daemon.restart()
    (daemon.project.output / HEADER_PATH).unlink()
    assert [sorted(run.assets) for run in daemon.settle()] == [["catalog"]]  # it does not wait for the listing


def test_ticks_need_no_polars(daemon, monkeypatch):
    """They work without polars and without all modules that import it."""
    heavy = [name for name, module in sys.modules.items() if name.startswith("headrace.") and hasattr(module, "pl")]
    assert "headrace.catalog.stored.parts" in heavy
    for name in ("polars", *heavy):
        monkeypatch.setitem(sys.modules, name, None)
    daemon.cursors.clear()
    assert daemon.tick("source_changes") == daemon.tick("stale_partitions") == []
    assert daemon.reasons == {"source_changes": "no change", "stale_partitions": "up to date"}
    daemon.project.write_tone("tone004", hz=999)
    assert len(daemon.tick("source_changes")) == 1
    daemon.project.write_yaml(audio={"bits_per_sample": 24})
    daemon.config = daemon.project.config()
    daemon.reload()
    assert daemon.tick("stale_partitions")


def test_latents_follow_once_their_audio_is_done(daemon):
    daemon.project.write_yaml(latents=LATENTS)
    daemon.reload()
    made = daemon.settle()
    assert count(made, "audio_shards") == 0
    assert count(made, "mel_latent_shards") == len(daemon.project.config().partitioning().partition_keys())
    assert count(made, "mel_sizes_index") == count(made, "loader_smoke_test") == 1
    daemon.project.write_tone("tone004", hz=999)
    made = daemon.settle()
    assert len(made) == 2
    assert count(made, "mel_latent_shards") == count(made, "mel_sizes_index") == 1


def test_a_file_that_still_changes_waits_and_others_do_not(daemon):
    yaml_path = daemon.project.datasets / "tones.yaml"
    content = yaml.safe_load(yaml_path.read_text())
    content["source"]["settle_seconds"] = 600
    yaml_path.write_text(yaml.safe_dump(content))
    for path in (*daemon.project.recordings.iterdir(), daemon.project.folder / "metadata.csv"):
        touch(path, -1000.0)
    daemon.reload()
    daemon.settle()
    touch(daemon.project.write_tone("quiet", hz=500), -1000.0)
    partial = daemon.project.write_tone("partial", hz=600)
    assert len(daemon.tick("source_changes")) == 1
    (daemon.project.recordings / "quiet.wav").unlink()
    touch(partial, 0.0)
    daemon.project.write_tone("partial", hz=601)
    assert daemon.tick("source_changes") == []
    assert "settling" in daemon.reasons["source_changes"]


def begun(daemon: Daemon, asset: str) -> dg.DagsterRun:
    """A run that somebody started by hand and that has not ended."""
    return daemon.instance.create_run_for_job(
        daemon.job,
        asset_selection=frozenset({getattr(daemon.project.keys, asset)}),
        status=dg.DagsterRunStatus.STARTED,
    )


def ended(daemon: Daemon, run: dg.DagsterRun) -> None:
    daemon.instance.report_run_canceled(run)


def failed(daemon: Daemon, run: dg.DagsterRun) -> None:
    daemon.instance.report_run_failed(run)


@pytest.mark.parametrize(
    ("asset", "reason", "end"),
    [
        ("catalog", "a scan is in progress", failed),  # one that is cancelled waits: test_cancelled_runs.py
        ("sizes_index", "a snapshot is being committed", failed),
        ("sizes_index", "a snapshot is being committed", ended),
    ],
)
def test_a_scan_waits_for_a_scan_or_a_commit_in_progress(daemon, asset, reason, end):
    daemon.project.write_tone("tone004", hz=999)
    run = begun(daemon, asset)
    assert daemon.tick("source_changes") == []
    assert reason in daemon.reasons["source_changes"]
    end(daemon, run)
    (request,) = daemon.tick("source_changes")
    assert request.asset_selection == [daemon.project.keys.catalog]


def test_a_scan_does_not_wait_for_a_commit_that_takes_too_long(daemon, monkeypatch):
    daemon.project.write_tone("tone004", hz=999)
    begun(daemon, "sizes_index")
    monkeypatch.setattr("headrace_dagster.sensors.source_changes._COMMIT_SECONDS", 0.0)
    assert len(daemon.tick("source_changes")) == 1


def test_a_scan_does_not_wait_for_partitions_that_are_being_made(daemon):
    daemon.project.write_tone("tone004", hz=999)
    begun(daemon, "audio_shards")
    assert len(daemon.tick("source_changes")) == 1


def test_stale_partitions_wait_for_a_scan_in_progress(daemon):
    daemon.project.write_tone("tone004", hz=999)
    assert daemon.run(daemon.tick("source_changes")[0]).success
    run = begun(daemon, "catalog")
    assert daemon.tick("stale_partitions") == []
    assert "running" in daemon.reasons["stale_partitions"]
    ended(daemon, run)
    (request,) = daemon.tick("stale_partitions")
    assert request.partition_key == daemon.project.partition_of("tone004.wav")
