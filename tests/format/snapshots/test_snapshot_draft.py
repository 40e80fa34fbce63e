"""Drafts of snapshots: which partitions share a part of the table, and what a draft reads."""

from dataclasses import replace

import pytest

from headrace.errors import BuildError, NotFoundError
from headrace.format.manifests.manifests import Manifest, NumberedManifest
from headrace.format.snapshots import snapshot_draft
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshot_draft import Drafting, first_of, groups_of, made_again, partitions_per_part
from tests.support.snapshots import entry

NAMES = ["test-0000", *(f"train-{bucket:04d}" for bucket in range(5))]


def manifest(name, *counts):
    split, bucket = name.split("-")
    shards = tuple(entry(split, int(bucket), number, count) for number, count in enumerate(counts))
    return Manifest(name, "wanted", "source", {}, shards)


class Output:
    """Manifests of partitions and the parts of drafts, with what was read of them."""

    def __init__(self):
        self.manifests = {name: manifest(name, 3, 4) for name in NAMES}
        self.parts, self.read, self.lost = {}, [], set()

    def draft(self, base=None):
        """The next snapshot; nothing counts as read before it."""
        self.read = []
        known = {name: NumberedManifest(1, found) for name, found in self.manifests.items()}
        drafting = Drafting(base, known, self._manifest, self._part, self._is_sound, lambda *name: "-".join(name))
        made = drafting.draft("catalog", {})
        self.parts |= made.new_parts
        return made

    def _manifest(self, name):
        self.read.append(name)
        return self.manifests[name]

    def _is_sound(self, part):
        return part.path not in self.lost

    def _part(self, part):
        self.read.append(part.first)
        if part.path in self.lost:
            raise NotFoundError(part.path)
        return ShardTable.from_bytes(self.parts[part.path], part.path)


@pytest.fixture
def output(monkeypatch):
    monkeypatch.setattr(snapshot_draft, "_PART_ROWS", 4)
    return Output()


def test_a_first_draft_reads_each_manifest_once(output):
    made = output.draft()
    assert output.read == sorted(NAMES)
    assert made.snapshot.partitions_per_part == 2
    assert [part.first for part in made.snapshot.parts] == ["test-0000", "train-0000", "train-0002", "train-0004"]
    assert {split: found.num_samples for split, found in made.snapshot.splits.items()} == {"test": 7, "train": 35}


def test_a_draft_reads_what_changed_and_the_part_that_it_is_in(output):
    base = output.draft().snapshot
    output.manifests["train-0003"] = manifest("train-0003", 9)
    made = output.draft(base)
    assert output.read == ["train-0003", "train-0002"]
    assert made.changed == ("train-0003",)
    assert len(made.new_parts) == 1
    assert made.snapshot == replace(output.draft().snapshot, parts=made.snapshot.parts)
    assert made.snapshot.parts[:2] == base.parts[:2]


def test_nothing_is_read_where_nothing_changed_and_a_lost_part_is_made_of_its_manifests(output):
    base = output.draft().snapshot
    assert (output.draft(base).snapshot, output.read) == (base, [])
    output.lost = {base.parts[1].path}
    made = output.draft(base)
    assert made.snapshot == base
    assert list(made.new_parts) == [base.parts[1].path]
    assert made_again(base, base.parts[1], output.manifests.get) == made.new_parts[base.parts[1].path]
    output.manifests["train-0001"] = manifest("train-0001", 8, 9)
    with pytest.raises(BuildError, match="is lost, and the manifests name other shards"):
        made_again(base, base.parts[1], output.manifests.get)


def test_partitions_without_shards_are_in_no_part(output):
    output.manifests["train-0001"] = manifest("train-0001", 0)
    made = output.draft().snapshot
    assert groups_of(made.partitions, 2)["train-0000"] == ["train-0000"]
    assert (made.partitions["train-0001"].num_bare, made.partitions["train-0001"].rows) == (1, "")
    assert first_of("train-0013", 4) == "train-0012"


def test_the_size_of_parts_is_kept_until_it_is_far_from_right(output):
    base = output.draft().snapshot
    for size, expected in ((4, 2), (1, 2), (8, 8)):
        snapshot_draft._PART_ROWS = size * 2
        assert partitions_per_part(base.partitions, base) == expected
        assert partitions_per_part(base.partitions, None) == size
    assert partitions_per_part({}, None) == 1
