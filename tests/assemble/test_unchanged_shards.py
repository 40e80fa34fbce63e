"""Partitions of which the newest snapshot alone says that they are up to date."""

from dataclasses import dataclass, field

import pytest

from headrace.assemble.unchanged_shards import unchanged_manifests
from headrace.format.manifests.manifests import Manifest, commit_manifest, newest_manifest
from headrace.format.shards.condemned import condemned
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.format.snapshots.summaries import newest_summaries
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import commit, noise, write_partition


@dataclass(frozen=True)
class Counting(LocalStorage):
    """A folder that counts what is read and listed."""

    requests: list = field(default_factory=list)

    def read(self, path):
        self.requests.append(path)
        return super().read(path)

    def list(self, prefix=""):
        self.requests.append(prefix)
        return super().list(prefix)


def shards_of(storage, partitions):
    clips = {name: {f"{name}-clip": noise(200, seed)} for seed, name in enumerate(partitions)}
    commit(storage, *(write_partition(storage, [clips[name]], partition=name) for name in partitions))
    return storage


@pytest.fixture
def storage(tmp_path):
    made = shards_of(LocalStorage(tmp_path), ["train-0000", "test-0000"])
    empty = Manifest("train-0001", "", "fingerprint", {"samples_per_shard": 50}, ())
    manifests = [newest_manifest(made, name) for name in ("train-0000", "test-0000")]
    commit(made, *manifests, commit_manifest(made, empty, None))
    return made


def found(storage, *left, **others):
    """The result for what the manifests were built from, except that partitions have left, and others are wanted."""
    summaries = newest_summaries(storage)
    built = {name: summary.wanted for name, summary in summaries.items() if name not in left}
    wanted = built | {name.replace("_", "-"): text for name, text in others.items()}
    return unchanged_manifests(storage, wanted, summaries)


def shard(storage, split="train"):
    return next(entry.path for entry in storage.list(f"{split}_") if entry.path.endswith(".tar"))


def test_every_partition_of_an_unchanged_folder_is_current(storage):
    assert found(storage) == newest_summaries(storage)


def grow(storage):
    storage.write(shard(storage), storage.read(shard(storage)) + b"\0")


def lose_table(storage):
    storage.delete(read_snapshot(storage).snapshot.parts[0].path)


def damage_table(storage):
    path = read_snapshot(storage).snapshot.parts[0].path
    storage.write(path, storage.read(path)[:-1] + b"?")


def commit_again(storage):
    """A manifest that no snapshot has, of the same input."""
    newest = newest_manifest(storage, "train-0000")
    commit_manifest(storage, newest.manifest, newest)


def drop_snapshot(storage):
    for entry in list(storage.list("snapshots/")):
        storage.delete(entry.path)


CHANGES = {
    "a shard is gone": lambda storage: storage.delete(shard(storage)),
    "an index is gone": lambda storage: storage.delete(shard(storage, "test").replace(".tar", ".idx")),
    "a shard has another size": grow,
    "the table of shards is gone": lose_table,
    "the table of shards is damaged": damage_table,
    "a manifest is newer than the snapshot": commit_again,
    "there is no snapshot": drop_snapshot,
}


@pytest.mark.parametrize("name", CHANGES)
def test_manifests_decide_if_the_snapshot_does_not_say_all(storage, name):
    CHANGES[name](storage)
    assert found(storage) is None


def test_manifests_decide_about_other_wishes(storage):
    assert found(storage, test_0000="other") is None
    assert found(storage, train_0002="new") is None
    assert found(storage, "test-0000") is None


def test_a_shard_that_a_gc_may_delete_is_missing(storage):
    with condemned(storage, [shard(storage)]):
        assert found(storage) is None


@pytest.mark.medium
def test_the_requests_do_not_grow_with_the_partitions(tmp_path):
    counts = {}
    for number in (10, 100):
        names = [f"train-{bucket:04d}" for bucket in range(number)]
        storage = Counting(shards_of(LocalStorage(tmp_path / str(number)), names).root)
        assert found(storage)
        counts[number] = len(storage.requests)
    assert counts[10] == counts[100] < 12
