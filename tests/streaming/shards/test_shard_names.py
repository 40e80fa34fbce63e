"""Shards of streams are found by the names of their files."""

import pytest

from headrace.format.snapshots.shard_table import ShardTable
from headrace.streaming.shards import shard_names
from headrace.streaming.shards.shard_names import ShardNames
from headrace.streaming.shards.shard_set import SnapshotShards
from tests.support.snapshots import entry

ENTRIES = [entry("test", 0, 0), *(entry("train", bucket, number) for bucket in (0, 3) for number in (0, 1, 5))]
TABLE = ShardTable.from_entries(ENTRIES)
TRAIN = SnapshotShards(TABLE, TABLE.rows_of("train"))


@pytest.fixture
def known():
    return ShardNames([(0, TRAIN, TRAIN), (1, SnapshotShards(TABLE, slice(0, 7)), SnapshotShards(TABLE, slice(0, 7)))])


def test_a_name_leads_to_its_shard_in_each_stream_that_reads_it(known):
    names = [TRAIN.name(number) for number in range(6)]
    assert [known.find(name) for name in names] == [[(0, number), (1, number + 1)] for number in range(6)]
    assert known.find(TABLE.name(0)) == [(1, 0)]


@pytest.mark.parametrize(
    "name",
    [
        f"{TRAIN.name(2)[:-16]}0123456789ab.tar",  # of another snapshot
        "train_0007_000000-0123456789ab.tar",
        "val_0000_000000-0123456789ab.tar",
        "other.tar",
        f"{TRAIN.name(2)}.gz",
        "",
    ],
)
def test_files_of_others_are_not_known(known, name):
    assert known.find(name) == []


def test_a_joined_shard_leads_to_the_own_shard_of_the_same_samples():
    latents = ShardTable.from_entries([entry("train", 3, number, num_samples=9) for number in (0, 5)])
    known = ShardNames([(2, TRAIN, SnapshotShards(latents, slice(0, 2)))])
    assert [known.find(latents.name(row)) for row in (0, 1)] == [[(2, 3)], [(2, 5)]]
    assert known.find(TRAIN.name(0)) == []


def test_names_of_plain_tars_are_known_once_they_are_learnt(known, monkeypatch):
    monkeypatch.setattr(shard_names, "_MOST_KEPT", 2)
    known.learn("mine.tar", (0, 4))
    for number in range(6):
        known.find(TRAIN.name(number))
    assert known.find("mine.tar") == [(0, 4)]
    assert known.find(TRAIN.name(0)) == [(0, 0), (1, 1)]
