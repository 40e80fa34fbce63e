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
