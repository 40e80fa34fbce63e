"""Commits cost what changed: which files they read and write, and that the result is that of a commit from scratch."""

import json
import random
from dataclasses import replace

import pytest

from headrace.errors import BuildError, FormatError
from headrace.format.manifests.manifests import (
    ManifestRejection,
    newest_manifest,
    newest_manifests,
    split_of,
)
from headrace.format.snapshots import snapshot_draft
from headrace.format.snapshots.sizes_file import has_true_sizes
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.format.snapshots.summaries import newest_summaries
from headrace.format.versioned_json import json_bytes
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.commits import commit, put

PARTITIONS = [*(f"train-{bucket:04d}" for bucket in range(12)), "test-0000", "test-0003"]


class Counted:
    """A store that records what is read and written."""

    def __init__(self, inner):
        self.inner, self.reads, self.writes = inner, [], {}

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def read(self, path):
        self.reads.append(path)
        return self.inner.read(path)

    def open(self, path):
        self.reads.append(path)
        return self.inner.open(path)

    def write(self, path, data):
        self.inner.write(path, data)
        self.writes[path] = self.inner.size(path)


@pytest.fixture(params=["memory", "folder"])
def storage(request, tmp_path):
    return open_storage("memory://") if request.param == "memory" else LocalStorage(tmp_path)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """About 16 rows in a part of the table of shards."""
    monkeypatch.setattr(snapshot_draft, "_PART_ROWS", 16)


@pytest.fixture
def committed(storage):
    for partition in PARTITIONS:
        put(storage, partition, 3, 4, 5, 6)
    commit(storage)
    return storage


def check_as_from_scratch(storage):
    """Check that the newest snapshot is the one that a first commit would have made, and that `sizes.json` is its."""
    numbered = read_snapshot(storage)
    fresh = open_storage("memory://")
    for entry in storage.list():
        if not entry.path.startswith(("snapshots/", "sizes")):
            fresh.write(entry.path, storage.read(entry.path))
    made = commit(fresh, numbered.snapshot.catalog)[0].snapshot
    assert (made.fingerprint, made.partitions, made.splits) == (
        numbered.snapshot.fingerprint,
        numbered.snapshot.partitions,
        numbered.snapshot.splits,
    )
    table, wanted = read_table(storage, numbered.snapshot), read_table(fresh, made)
    assert table.to_bytes() == wanted.to_bytes()
    assert storage.read("sizes.json") == json_bytes(dict(zip(table.names(), table.num_samples.tolist(), strict=True)))
    assert has_true_sizes(storage, numbered.snapshot)
    assert json.loads(storage.read("sizes.json")) == {
        shard.name: shard.num_samples
        for _, found in sorted(newest_manifests(storage).items(), key=lambda item: (split_of(item[0]), item[0]))
        for shard in found.manifest.shards
        if shard.num_samples
    }


def test_one_changed_partition_costs_its_manifest_its_part_and_the_root(committed):
    put(committed, "train-0005", 3, 4, 5, 6, 7)
    counted = Counted(committed)
    before = read_snapshot(committed).snapshot
    after, is_new = commit(counted)
    assert is_new
    check_as_from_scratch(committed)
    assert len(before.parts) == 4
    (changed,) = set(after.snapshot.parts) - set(before.parts)
    assert changed.first == "train-0004"
    manifests = {path for path in counted.reads if path.startswith("manifests/")}
    assert manifests == {"manifests/train-0005/00000002.json"}
    parts = {path for path in counted.reads if path.endswith(".shards")}
    assert parts <= {changed.path, *(part.path for part in before.parts if part.first == "train-0004")}
    assert {path for path in counted.writes if path.endswith(".shards")} == {changed.path}


def test_no_change_reads_no_manifest_and_no_index_and_writes_nothing(committed):
    counted = Counted(committed)
    assert not commit(counted)[1]
    assert {path.partition("/")[0] for path in counted.reads} == {"snapshots", "sizes.json"}
    assert counted.writes == {}


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(4))
def test_after_any_history_a_snapshot_is_that_of_a_first_commit(seed):
    storage, chance = open_storage("memory://"), random.Random(seed)
    for _ in range(12):
        for partition in chance.sample(PARTITIONS, chance.choice([1, 1, 1, 4, 14])):
            put(storage, partition, *(chance.choice([0, 1, 5]) for _ in range(chance.choice([0, 1, 3, 12]))))
        if chance.random() < 0.2:
            storage.write(
                "sizes.json",
                chance.choice([b"{}", b"", storage.read("sizes.json")[:-9] + b'": 999\n}\n'])
                if storage.exists("sizes.json")
                else b"{}",
            )
        commit(storage)
        check_as_from_scratch(storage)


def test_old_snapshots_keep_their_parts(committed):
    put(committed, "train-0005", 1)
    commit(committed)
    assert [len(read_table(committed, read_snapshot(committed, number).snapshot)) for number in (1, 2)] == [56, 53]


@pytest.mark.medium
@pytest.mark.parametrize("harm", ["delete", "cut", "flip"])
def test_a_commit_beside_a_damaged_part_makes_it_from_the_manifests(committed, harm):
    before = read_snapshot(committed).snapshot
    part = next(part for part in before.parts if part.first == "train-0004")
    blob = committed.read(part.path)
    if harm == "delete":
        committed.delete(part.path)
    else:
        committed.write(part.path, blob[:-8] if harm == "cut" else blob[:-1] + b"\x55")
    put(committed, "train-0005", 1)
    commit(committed)
    check_as_from_scratch(committed)


@pytest.mark.medium
@pytest.mark.parametrize("harm", ["delete", "flip"])
def test_a_lost_or_damaged_part_in_which_nothing_changed_is_made_again(committed, harm):
    part = read_snapshot(committed).snapshot.parts[-1]
    blob = committed.read(part.path)
    if harm == "delete":
        committed.delete(part.path)
    else:
        committed.write(part.path, blob[:-1] + b"\x55")
    assert not commit(committed)[1]
    assert committed.read(part.path) == blob
    committed.delete(part.path)
    put(committed, "test-0000", 1)
    commit(committed)
    check_as_from_scratch(committed)


def test_a_lost_part_of_which_the_manifests_name_other_shards_is_an_error_by_name(committed):
    snapshot = read_snapshot(committed).snapshot
    part = snapshot.parts[-1]

    def other(name):
        manifest = newest_manifest(committed, name).manifest
        return replace(manifest, shards=tuple(replace(shard, num_bytes=99) for shard in manifest.shards))

    with pytest.raises(BuildError, match=f"{part.path}: is lost"):
        snapshot_draft.made_again(snapshot, part, other)


def test_damage_to_a_part_is_an_error_that_names_it(committed):
    numbered = read_snapshot(committed)
    part = numbered.snapshot.parts[1]
    committed.write(part.path, committed.read(part.path)[:-1] + b"\x55")
    with pytest.raises(FormatError, match=f"{part.path}: does not have the digest in its snapshot"):
        read_table(committed, numbered.snapshot)


def test_totals_and_rejections_of_partitions_are_in_the_root(storage):
    refusal = ManifestRejection("x.wav", "truncated", "cut off")
    put(storage, "train-0001", 3, 0, 5, wanted="this", refused=[refusal])
    frozen = commit(storage)[0].snapshot.partitions["train-0001"]
    assert (frozen.num_shards, frozen.num_bare, frozen.num_samples, frozen.num_rejected) == (2, 1, 8, 1)
    assert (frozen.wanted, frozen.num_bytes, frozen.seconds) == ("this", 20, 0.8)
    assert newest_summaries(storage)["train-0001"].digest == newest_manifest(storage, "train-0001").manifest.digest


@pytest.mark.medium
def test_the_size_of_parts_follows_the_number_of_shards_with_patience():
    storage = open_storage("memory://")
    for partition in PARTITIONS:
        put(storage, partition, 1)
    sizes = [commit(storage)[0].snapshot.partitions_per_part]
    for count in (1, 3, 12, 40):
        for partition in PARTITIONS:
            put(storage, partition, *[2] * count)
        sizes.append(commit(storage)[0].snapshot.partitions_per_part)
        check_as_from_scratch(storage)
    assert sizes == [16, 16, 4, 1, 1]
