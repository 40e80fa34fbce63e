"""The sensor notices missing shards, and their partitions are built again."""

import json

import pytest

from headrace.format.manifests import newest_manifests
from headrace.format.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage
from headrace_dagster.assets.tags import REASON_TAG
from tests.built import SettledDaemon
from tests.daemons import Daemon
from tests.projects import Project
from tests.undrawn import nothing_drawn


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("missing"))
    project.write_tones(8)
    project.write_yaml(latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}])
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled, undrawn, monkeypatch):
    monkeypatch.setattr("headrace_dagster.sensors.missing_shards._CHANGED_SECONDS", 0.0)
    return settled.put_back()


def shard(daemon, part="audio"):
    folder = daemon.project.output / part
    partition, found = max(newest_manifests(LocalStorage(folder)).items())
    return partition, folder / found.manifest.shards[0].name


@pytest.mark.parametrize("part", ["audio", "latents/mel", "columns/metadata"])
def test_a_missing_shard_is_built_again_and_the_run_says_why(daemon, part):
    partition, path = shard(daemon, part)
    before, snapshot = path.read_bytes(), read_snapshot(LocalStorage(path.parent)).number
    path.unlink()
    (request,) = daemon.tick("stale_partitions")
    assert (request.partition_key, request.tags[REASON_TAG]) == (partition, "shards missing")
    assert ["audio_shards" in key.path for key in request.asset_selection].count(True) == (part == "audio")
    assert daemon.run(request).success
    assert path.read_bytes() == before
    assert read_snapshot(LocalStorage(path.parent)).number == snapshot
    assert daemon.settle() == []


def test_a_look_costs_nothing_while_it_is_not_due(daemon, monkeypatch):
    monkeypatch.setattr("headrace_dagster.sensors.missing_shards._CHANGED_SECONDS", 1e9)
    shard(daemon)[1].unlink()
    assert daemon.tick("stale_partitions") == []
    assert daemon.reasons["stale_partitions"] == "up to date"
    daemon.restart()  # a lost cursor costs a look
    assert len(daemon.tick("stale_partitions")) == 1


def test_a_shard_that_cannot_be_built_again_backs_off_with_the_same_reason(daemon, monkeypatch):
    partition, path = shard(daemon)
    path.unlink()

    def fail(*_arguments, **_options):
        raise OSError("disk full")

    (request,) = daemon.tick("stale_partitions")
    with monkeypatch.context() as broken:
        broken.setattr("headrace_dagster.assets.audio_shards.build_partition", fail)
        assert not daemon.run(request).success
    assert daemon.tick("stale_partitions") == []
    assert daemon.reasons["stale_partitions"] == f"{partition}: backing off (shards missing)"
    assert list(json.loads(daemon.cursors["stale_partitions"])["missing"]) == [f"audio {partition}"]
