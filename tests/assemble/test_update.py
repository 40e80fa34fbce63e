"""Bringing one partition up to date: what is reused, what is written, and what happens when other writers interfere."""

from dataclasses import dataclass, field

import pytest

from headrace.assemble import update
from headrace.assemble.update import PartitionTarget, bring_up_to_date
from headrace.errors import AlreadyExistsError, BuildError
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_entries import SampleEntry
from headrace.format.manifests.manifests import ShardEntry, newest_manifest
from headrace.format.manifests.planned_keys import pack_keys
from headrace.format.shards.writer import ShardPlace, ShardWriter, published_index
from headrace.stores.storage import LocalStorage

PARTITION = "train-0000"


@dataclass(frozen=True)
class Plan:
    sequence: int
    input_digest: str


@dataclass
class Recipe:
    """Shards of one sample each; the sample's content is the input digest."""

    storage: LocalStorage
    inputs: list[str]
    written: list[str] = field(default_factory=list)

    @property
    def target(self):
        return PartitionTarget(PARTITION, " ".join(self.inputs), "source", {})

    def plan(self, previous):
        return [Plan(sequence, text) for sequence, text in enumerate(self.inputs)]

    def write(self, plans):
        found = {}
        for plan in plans:
            with ShardWriter(self.storage, ShardPlace("train", 0, plan.sequence)) as writer:
                blob = plan.input_digest.encode()
                writer.add(f"key{plan.sequence}", {"json": (blob, len(blob))}, SampleEntry("", {}))
                found[plan.input_digest] = writer.publish(plan.input_digest, {})
            self.written.append(plan.input_digest)
        return found

    def entry(self, plan, index):
        return ShardEntry(index.shard, index.num_bytes, 1, 0, 0.0, plan.input_digest, len(index))

    def rejected(self, indexes):
        return ()

    def lengths(self, indexes):
        return None

    def labels(self, stored):
        return {}

    def made(self, stored):
        return ()

    def planned_keys(self, plans):
        return pack_keys([f"key{plan.sequence}"] for plan in plans)


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def build(storage, *inputs):
    recipe, done = Recipe(storage, list(inputs)), []
    return recipe, bring_up_to_date(recipe, storage, published_index, done.append), sum(done)


def test_an_up_to_date_partition_is_left_as_it_is(storage):
    build(storage, "a", "b")
    recipe, result, done = build(storage, "a", "b")
    assert (recipe.written, result.manifest.number, len(result.reused)) == ([], 1, 2)
    assert done == 2


def test_only_shards_of_other_input_are_written(storage):
    build(storage, "a", "b")
    recipe, result, done = build(storage, "a", "c")
    assert recipe.written == ["c"]
    assert (len(result.written), len(result.reused), result.manifest.number, done) == (1, 1, 2, 1)


def test_shards_of_an_interrupted_build_and_of_older_manifests_are_reused(storage):
    Recipe(storage, ["a"]).write([Plan(0, "a")])
    recipe, _, _ = build(storage, "a", "b")
    assert recipe.written == ["b"]
    build(storage, "c")
    recipe, _, _ = build(storage, "a", "b")
    assert recipe.written == []


def test_a_shard_without_an_index_is_written_again(storage):
    _, first, _ = build(storage, "a")
    (name,) = first.written
    storage.delete(index_name(name))
    recipe, result, _ = build(storage, "a")
    assert recipe.written == ["a"]
    assert (result.written, result.manifest) == ((name,), first.manifest)


def test_after_a_lost_race_the_partition_is_planned_again(storage, monkeypatch):
    own = update.commit_manifest

    def after_another(storage, manifest, previous, keys):
        monkeypatch.setattr(update, "commit_manifest", own)
        build(storage, "b")
        return own(storage, manifest, previous, keys)

    monkeypatch.setattr(update, "commit_manifest", after_another)
    recipe, result, _ = build(storage, "a")
    assert recipe.written == ["a"]
    assert result.manifest.number == 2
    assert result.previous.wanted == "b"
    assert newest_manifest(storage, PARTITION) == result.manifest


def test_a_shard_that_disappears_around_the_commit_is_made_again(storage, monkeypatch):
    own = update.commit_manifest

    def then_delete(storage, manifest, previous, keys):
        monkeypatch.setattr(update, "commit_manifest", own)
        committed = own(storage, manifest, previous, keys)
        storage.delete(manifest.shards[0].name)
        return committed

    monkeypatch.setattr(update, "commit_manifest", then_delete)
    recipe, result, _ = build(storage, "a")
    assert recipe.written == ["a", "a"]
    assert storage.exists(result.manifest.manifest.shards[0].name)


def test_a_build_gives_up_after_five_lost_races(storage, monkeypatch):
    attempts = []

    def always_late(storage, manifest, previous, keys):
        attempts.append(manifest)
        raise AlreadyExistsError("manifests/train-0000/00000001.json")

    monkeypatch.setattr(update, "commit_manifest", always_late)
    with pytest.raises(BuildError, match="train-0000: other writers kept committing"):
        build(storage, "a")
    assert len(attempts) == 5
