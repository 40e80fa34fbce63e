"""The sensor notices missing shards, and their partitions are built again."""

import json
from types import SimpleNamespace

import pytest

from headrace.format.manifests.manifests import newest_manifests
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage
from headrace_dagster.assets.tags import REASON_TAG
from headrace_dagster.sensors import missing_shards
from headrace_dagster.sensors.missing_shards import SensorState
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn


class FakeFolders:
    """Shard folders in which looking at a partition takes some time, and of which some partitions lack shards."""

    def __init__(self, *missing, seconds=0.0):
        self.missing, self.seconds, self.now, self.mark, self.looked = set(missing), seconds, 0.0, "m", []

    def look(self, folders, places, is_time_left):
        found = []
        for count, place in enumerate(places):
            if count and not is_time_left():
                return found, count
            self.now += self.seconds
            self.looked.append(" ".join(place))
            found += [place] if " ".join(place) in self.missing else []
        return found, len(places)


@pytest.fixture
def faked(monkeypatch):
    def faked(*missing, seconds=0.0):
        fake = FakeFolders(*missing, seconds=seconds)
        monkeypatch.setattr(missing_shards, "look", fake.look)
        monkeypatch.setattr(missing_shards, "folder_mark", lambda _: fake.mark)
        monkeypatch.setattr(missing_shards, "time", SimpleNamespace(monotonic=lambda: fake.now))
        return fake

    return faked


FOLDERS = {"audio": None, "latents/mel": None}


def test_a_cursor_keeps_the_state_and_one_of_another_version_counts_as_none():
    state = SensorState("mark", 7.0, "m", 3, {"audio a b": 5.0})
    assert SensorState.from_cursor(state.to_cursor()) == state
    first = SensorState(mark=None, began=0.0, folders="", next=-1, missing={})
    for cursor in (None, "", "no JSON", '{"seen": 1}', "[1]"):
        assert SensorState.from_cursor(cursor) == first


def test_partitions_that_lack_shards_are_told_apart_by_folder():
    state = SensorState(missing={"audio a": 5.0, "latents/mel a": 6.0, "audio b": 7.0})
    assert state.of("audio") == {"a": 5.0, "b": 7.0}
    assert state.of("latents/mel") == {"a": 6.0}
    assert state.of("audi") == {}


def test_a_round_looks_at_each_partition_once_a_few_at_each_tick(faked):
    fake = faked("audio b", "latents/mel c", seconds=0.15)
    state, ticks = SensorState().looked(FOLDERS, ["a", "b", "c"], 1e9), 1
    assert (state.began, state.folders, state.next, state.missing) == (1e9, "m", 2, {"audio b": 1e9})
    while state.next >= 0:
        fake.looked.clear()
        fake.now = 0.0
        state, ticks = state.looked(FOLDERS, ["a", "b", "c"], 1e9 + ticks), ticks + 1
        assert len(set(fake.looked)) == 2
    assert state.missing == {"audio b": 1e9, "latents/mel c": 1e9 + ticks - 1}
    assert state.began == 1e9


def test_a_round_under_way_is_completed_even_if_the_next_one_is_due(faked):
    fake = faked()
    fake.mark = "other"
    state = SensorState(began=1000.0, folders="m", next=0).looked(FOLDERS, ["a"], 9000.0)
    assert fake.looked == ["audio a", "latents/mel a"]
    assert (state.began, state.folders, state.next) == (1000.0, "m", -1)


@pytest.mark.parametrize(
    ("mark", "pause"), [("m", 600.0), ("other", 60.0), ("", 60.0)], ids=["unchanged", "changed", "now a store"]
)
def test_the_next_round_begins_after_a_pause(faked, mark, pause):
    fake = faked()
    fake.mark = mark
    state = SensorState(began=1000.0, folders="m")
    for now in (1000.0, 1000.0 + pause - 0.5):
        assert state.looked(FOLDERS, ["a"], now) == state
    assert fake.looked == []
    for now in (1000.0 + pause, 999.5):  # a clock that was set back must not stop the rounds
        begun = state.looked(FOLDERS, ["a"], now)
        assert (begun.began, begun.folders, begun.next) == (now, mark, -1)
    assert fake.looked == 2 * ["audio a", "latents/mel a"]


def test_object_stores_are_looked_at_once_an_hour(faked):
    fake = faked()
    fake.mark = ""
    state = SensorState(began=1000.0)
    assert state.looked(FOLDERS, ["a"], 4599.5) is not None
    assert fake.looked == []
    state.looked(FOLDERS, ["a"], 4600.0)
    assert fake.looked == ["audio a", "latents/mel a"]


def test_partitions_that_lacked_shards_come_first_and_those_of_other_layouts_are_forgotten(faked):
    fake = faked("audio a", "latents/mel b")
    known = {"audio a": 5.0, "audio b": 6.0, "audio gone": 7.0, "latents/other a": 8.0}
    state = SensorState(began=1000.0, folders="m", missing=known)
    assert state.looked(FOLDERS, ["a", "b"], 1001.0).missing == {"audio a": 5.0}
    assert fake.looked == ["audio a", "audio b"]
    found = state.looked(FOLDERS, ["a", "b"], 9000.0)
    assert found.missing == {"audio a": 5.0, "latents/mel b": 9000.0}


def test_a_tick_that_used_its_time_on_known_partitions_looks_at_no_others(faked):
    fake = faked("audio a", "audio c", seconds=0.15)
    known = {"audio a": 5.0, "audio b": 6.0, "audio c": 7.0}
    state = SensorState(began=1000.0, folders="m", next=0, missing=known).looked(FOLDERS, ["a", "b", "c"], 1001.0)
    assert fake.looked == ["audio a", "audio b"]
    assert (state.next, state.missing) == (0, {"audio a": 5.0, "audio c": 7.0})


def test_at_most_five_hundred_partitions_are_remembered(faked):
    names = [f"p{number}" for number in range(600)]
    faked(*(f"audio {name}" for name in names))
    state = SensorState(missing={f"audio {name}": 5.0 for name in names[-10:]}).looked({"audio": None}, names, 1e9)
    assert len(state.missing) == 500
    assert list(state.missing.values()).count(5.0) == 10


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


@pytest.mark.medium
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


@pytest.mark.medium
def test_a_look_costs_nothing_while_it_is_not_due(daemon, monkeypatch):
    monkeypatch.setattr("headrace_dagster.sensors.missing_shards._CHANGED_SECONDS", 1e9)
    shard(daemon)[1].unlink()
    assert daemon.tick("stale_partitions") == []
    assert daemon.reasons["stale_partitions"] == "up to date"
    daemon.restart()  # a lost cursor costs a look
    assert len(daemon.tick("stale_partitions")) == 1


@pytest.mark.medium
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
