"""The search for missing shards checks a small part of a dataset at a time, in folders and object stores."""

import os

import pytest

from headrace.assemble.missing_shards import folder_mark, look
from headrace.format.indexes.index import index_name
from headrace.format.manifests.manifests import newest_manifests
from headrace.stores.storage import LocalStorage, open_storage
from headrace_dagster.sensors.missing_shards import SensorState
from tests.support.streaming.corpus import clips, write_dataset

SPLITS = ("test", "train", "validation")
PARTITIONS = [f"{split}-0000" for split in SPLITS]
PLACES = [("audio", partition) for partition in PARTITIONS]


@pytest.fixture(params=["folder", "store"])
def shards(request, tmp_path):
    write_dataset(tmp_path, {split: clips(8, first=10 * number) for number, split in enumerate(SPLITS)})
    os.utime(tmp_path / "audio", (0, 0))  # else a fast disk changes the folder again within one tick of its clock
    made = LocalStorage(tmp_path / "audio")
    if request.param == "folder":
        return made
    storage = open_storage("memory://").at("audio")
    for entry in made.list():
        storage.write(entry.path, made.read(entry.path))
    return storage


def shard_of(storage, partition):
    return newest_manifests(storage)[partition].manifest.shards[0].name


def always() -> bool:
    return True


def test_deleted_and_truncated_shards_are_missing(shards):
    assert look({"audio": shards}, PLACES, always) == ([], 3)
    shards.delete(shard_of(shards, "train-0000"))
    shards.delete(index_name(shard_of(shards, "test-0000")))
    name = shard_of(shards, "validation-0000")
    shards.write(name, shards.read(name)[:-1])
    assert look({"audio": shards}, PLACES, always) == ([PLACES[0], PLACES[1], PLACES[2]], 3)


def test_a_search_ends_after_its_time_and_the_next_one_continues_there(shards):
    shards.delete(shard_of(shards, "validation-0000"))
    assert look({"audio": shards}, PLACES, lambda: False) == ([], 1)
    assert look({"audio": shards}, PLACES[1:], lambda: False) == ([], 1)
    assert look({"audio": shards}, PLACES[2:], lambda: False) == ([PLACES[2]], 1)


def test_a_partition_that_was_never_built_has_no_missing_shards(shards):
    assert look({"audio": shards}, [("audio", "train-0007")], always) == ([], 1)


def test_a_folder_shows_when_files_were_added_or_removed_and_a_store_does_not(shards):
    before = folder_mark({"audio": shards})
    shards.write("zzz", b"")
    assert (folder_mark({"audio": shards}) != before) == isinstance(shards, LocalStorage)


def test_rounds_begin_at_intervals_and_missing_shards_are_checked_in_every_tick(shards):
    is_local = isinstance(shards, LocalStorage)
    watch = SensorState().looked({"audio": shards}, PARTITIONS, now=10_000.0)
    assert (watch.began, watch.next, watch.missing) == (10_000.0, -1, {})
    name = shard_of(shards, "train-0000")
    kept = shards.read(name)
    shards.delete(name)
    assert watch.looked({"audio": shards}, PARTITIONS, now=10_050.0).missing == {}
    found_after = 10_061.0 if is_local else 13_601.0
    assert watch.looked({"audio": shards}, PARTITIONS, now=found_after - 2).missing == {}
    watch = watch.looked({"audio": shards}, PARTITIONS, now=found_after)
    assert watch.of("audio") == {"train-0000": found_after}
    assert SensorState.from_cursor(watch.to_cursor()) == watch
    watch = watch.looked({"audio": shards}, PARTITIONS, now=found_after + 5)
    assert watch.of("audio") == {"train-0000": found_after}
    shards.write(name, kept)
    assert watch.looked({"audio": shards}, PARTITIONS, now=found_after + 10).missing == {}


def test_a_partition_that_left_the_layout_is_forgotten(shards):
    shards.delete(shard_of(shards, "train-0000"))
    watch = SensorState().looked({"audio": shards}, PARTITIONS, now=10_000.0)
    assert watch.of("audio") == {"train-0000": 10_000.0}
    assert watch.looked({"audio": shards}, ["test-0000"], now=10_005.0).missing == {}


def test_a_tick_checks_a_part_and_the_next_one_continues(shards, monkeypatch):
    monkeypatch.setattr("headrace_dagster.sensors.missing_shards._TICK_SECONDS", 1e-9)
    shards.delete(shard_of(shards, "validation-0000"))
    watch, seen = SensorState(), []
    monkeypatch.setattr("headrace_dagster.sensors.missing_shards.time.monotonic", Clock())
    for _ in range(3):
        watch = watch.looked({"audio": shards}, PARTITIONS, now=10_000.0)
        seen.append((watch.next, list(watch.missing)))
    assert seen == [(1, []), (2, []), (-1, ["audio validation-0000"])]


@pytest.mark.parametrize("cursor", [None, "", "no JSON", '["a digest", "a run"]', '{"other": 1}'])
def test_a_cursor_of_another_version_costs_one_more_round(cursor):
    assert SensorState.from_cursor(cursor) == SensorState()


class Clock:
    """A clock that jumps at its third call, so that a tick has time for one partition."""

    def __init__(self):
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return self.asked // 3 + (0.0 if self.asked % 3 else -0.5)
