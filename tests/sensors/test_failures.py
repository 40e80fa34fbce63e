"""Failed work is retried with growing pauses, then rests until a change; a failed check blocks later assets."""

import dagster as dg
import pytest

from headrace.assemble import latents_together
from headrace.assemble.waves import RunPatience
from headrace.errors import BuildError
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from headrace_dagster.assets import latent_shards
from tests.support import daemons
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count
from tests.support.failing_checks import fail_index_check
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("failures"))
    project.write_tones(4)
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 2, "partitions": {"train": 2}})
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled, undrawn):
    return settled.put_back()


def test_a_partition_that_fails_its_check_blocks_latents_and_snapshot(daemon, monkeypatch):
    """Shards are damaged between their writing and their check; what readers see stays as it was."""
    before = daemon.project.sizes()
    daemon.project.write_yaml(latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}])
    daemon.reload()
    daemon.settle()
    fail_index_check(monkeypatch)
    daemon.project.write_tone("tone001", hz=999)
    made = daemon.settle()
    assert [run.success for run in made] == [True, False]
    assert "backing off" in daemon.reasons["stale_partitions"]
    assert daemon.project.sizes() == before
    audio = newest_manifest(LocalStorage(daemon.project.output / "audio"), made[1].partition)
    latents = newest_manifest(LocalStorage(daemon.project.output / "latents/mel"), made[1].partition)
    assert audio.number == 2
    assert latents.number == 1
    blocked = daemon.run(dg.RunRequest(asset_selection=[daemon.project.keys.sizes_index]))
    assert not blocked.success
    assert daemon.project.sizes() == before
    monkeypatch.undo()
    assert daemon.run(
        dg.RunRequest(asset_selection=[daemon.project.keys.audio_shards], partition_key=made[1].partition)
    ).success
    made = daemon.settle()
    assert all(run.success for run in made)
    assert count(made, "sizes_index") == 1
    assert daemon.project.sizes() != before


def test_latents_that_fail_keep_neither_snapshots_nor_views_nor_the_report_from_being_made(daemon, monkeypatch):
    build_partition = latent_shards.build_latent_partition

    def build_or_fail(partition, settings, encoders, audio, storage, **options):
        if storage.uri.endswith("broken"):
            raise BuildError("the encoder is broken")
        return build_partition(partition, settings, encoders, audio, storage, **options)

    for module in (latents_together, latent_shards):  # with others, and alone
        monkeypatch.setattr(module, "build_latent_partition", build_or_fail)
    monkeypatch.setattr(daemons, "_PATIENCE", RunPatience(()))
    sets = [{"name": name, "encoder": {"kind": "log_mel"}} for name in ("broken", "mel")]
    daemon.project.write_yaml(latents=sets, views={"long": {"where": "duration_seconds > 0"}})
    daemon.reload()
    made = daemon.settle()
    assert made[-1].success
    assert made[-1].assets == {"mel_sizes_index", "long_view", "dataset_report"}
    assert sum(run.success for run in made) == 1 + count(made, "catalog")
    assert "resting" in daemon.reasons["stale_partitions"]
    assert list((daemon.project.output / "views/long/snapshots").glob("*.json"))
    assert list((daemon.project.output / "latents/mel/snapshots").glob("*.json"))
    assert (daemon.project.output / "report.html").exists()


def loud(audio, sample_rate_hz):
    if is_broken:
        raise RuntimeError("no such sound")
    return {"peak": float(abs(audio).max())}


loud.columns, loud.fingerprint, is_broken = {"peak": "float"}, "1", False
LOUD = {"name": "loud", "kind": "custom", "feature": f"{__name__}:loud"}
LACKING = {"name": "lacking", "kind": "quality", "file": "no_such_package:model.onnx"}
MEL = {"name": "mel", "encoder": {"kind": "log_mel"}}
NO_MODEL = {"kind": "onnx", "file": "no_such_package:model.onnx", "sample_rate_hz": 16000}
NEURAL = {"name": "neural", "encoder": NO_MODEL | {"outputs": {"vector": {"kind": "vector", "dim": 2}}}}


@pytest.mark.parametrize("hours", [1.0, 100.0], ids=["a run for all", "a run for each kind"])
@pytest.mark.parametrize(
    ("failing", "is_tested"),
    [
        ({"features": [LOUD]}, True),
        ({"features": [LACKING]}, True),
        ({"latents": [MEL, NEURAL]}, False),
        ({"features": [LOUD, LACKING], "latents": [MEL, NEURAL]}, False),
    ],
    ids=["a feature that refuses", "a feature's package", "an encoder's package", "all"],
)
def test_what_fails_or_cannot_be_loaded_stops_only_itself(daemon, monkeypatch, failing, is_tested, hours):
    monkeypatch.setattr(f"{__name__}.is_broken", True)
    monkeypatch.setattr(daemons, "_PATIENCE", RunPatience(()))
    monkeypatch.setattr("headrace_dagster.sensors.due_work._SECONDS_PER_HOUR", 1 / hours)
    names = {"loud": "loud.peak > 0"} if LOUD in failing.get("features", []) else {}
    views = {name: {"where": where} for name, where in {"long": "duration_seconds > 0", **names}.items()}
    project = daemon.project
    project.write_yaml(**{"latents": [MEL], "features": []} | failing, views=views)
    daemon.reload()
    project.write_tone("tone001", hz=999)
    done = [run for run in daemon.settle() if run.success]
    assert "resting" in daemon.reasons["stale_partitions"]
    assert count(done, "loader_smoke_test") == is_tested
    newest = max((project.output / "audio/snapshots").glob("*.json"))
    assert newest.name == "00000002.json"
    made = {name: daemon.instance.get_latest_materialization_event(project.keys.view(name)) for name in views}
    assert {name for name, event in made.items() if event} == {"long"}
    for key in (project.keys.latents_index("mel"), project.keys.dataset_report):
        assert daemon.instance.get_latest_materialization_event(key), key
    monkeypatch.setattr(f"{__name__}.is_broken", False)
    monkeypatch.setattr(loud, "fingerprint", "2")
    project.write_yaml(features=[LOUD], latents=[MEL], views={"loud": {"where": "loud.peak > 0"}})
    daemon.reload()
    assert all(run.success for run in daemon.settle())
    assert list((project.output / "views/loud/snapshots").glob("*.json"))


@pytest.mark.parametrize(("runs", "started"), [({"per_tick": 2}, 2), ({"per_tick": 9, "in_flight": 3}, 3)])
def test_the_yaml_bounds_the_runs_that_a_tick_starts(daemon, runs, started):
    layout = {"samples_per_shard": 1, "partitions": {"train": 5}}
    daemon.project.write_yaml(latents=[], splits={"train": 1.0}, shards=layout, runs=runs)
    daemon.reload()
    for request in daemon.tick("source_changes"):
        daemon.run(request)
    assert len(daemon.tick("stale_partitions")) == started


def test_an_empty_source_does_not_empty_the_data_set(daemon):
    before = daemon.project.sizes()
    for path in daemon.project.recordings.iterdir():
        path.unlink()
    made = daemon.settle()
    assert [run.success for run in made] == [False]
    assert "held back" in daemon.reasons["stale_partitions"]
    assert daemon.project.sizes() == before
