"""Journals of written shards: what a build of a local folder finds again without reading the folder."""

import pytest

from headrace.format.indexes.index import index_name
from headrace.format.manifests.manifests import shard_name
from headrace.format.shards.journal import forget_missing, note_shard, noted_shards
from headrace.format.shards.shard_files import file_prefix_of, sizes_of_shards, with_unnamed
from headrace.stores.storage import LocalStorage, open_storage

PREFIX = "train_0003_"


def name(sequence, bucket=3):
    return shard_name("", "train", bucket, sequence, f"{sequence:012x}")


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


def write(storage, *names):
    for shard in names:
        storage.write(shard, b"tar")
        storage.write(index_name(shard), b"index")


def test_a_partition_finds_its_own_noted_shards_once_and_in_order(storage):
    assert noted_shards(storage, PREFIX) is None
    for shard in (name(1), name(0), name(1), name(5, bucket=4)):
        note_shard(storage, shard)
    assert noted_shards(storage, PREFIX) == [name(1), name(0)]
    assert noted_shards(storage, "train_0009_") == []


def test_a_line_that_is_cut_off_is_ignored(storage):
    note_shard(storage, name(1))
    with (storage.root / ".journal/train_0003").open("ab") as file:
        file.write(b"train_0003_00\xff")
    assert noted_shards(storage, PREFIX) == [name(1)]


def test_without_a_journal_that_can_be_read_the_folder_is_listed(storage):
    write(storage, name(0))
    (storage.root / ".journal/train_0003").mkdir(parents=True)
    assert noted_shards(storage, PREFIX) is None
    assert with_unnamed(storage, PREFIX, {}) == {name(0): 3, index_name(name(0)): 5}


def test_journals_are_hidden_from_listings(storage):
    note_shard(storage, name(1))
    assert list(storage.list()) == []


def test_a_store_has_no_journals():
    storage = open_storage("memory://")
    note_shard(storage, name(1))
    assert noted_shards(storage, PREFIX) is None


def test_unnamed_shards_are_found_without_reading_the_folder(storage, monkeypatch):
    for sequence in range(3):
        note_shard(storage, name(sequence))
    write(storage, name(0), name(2), name(7, bucket=4))
    monkeypatch.setattr(LocalStorage, "list", only_of_records(LocalStorage.list))
    sizes = sizes_of_shards(storage, PREFIX, [name(0)])
    assert sizes == {name(0): 3, index_name(name(0)): 5}
    assert with_unnamed(storage, PREFIX, sizes) == {**sizes, name(2): 3, index_name(name(2)): 5}


def only_of_records(own):
    def listed(storage, prefix=""):
        assert prefix == "condemned/", f"the folder is read for {prefix!r}"
        return own(storage, prefix)

    return listed


def test_a_folder_without_journals_is_listed(storage):
    write(storage, name(0), name(7, bucket=4))
    assert with_unnamed(storage, PREFIX, {}) == {name(0): 3, index_name(name(0)): 5}


def test_a_store_is_listed_by_the_prefix_of_the_partition():
    storage = open_storage("memory://")
    write(storage, name(0), name(7, bucket=4))
    sizes = sizes_of_shards(storage, file_prefix_of("train-0003"), [])
    assert with_unnamed(storage, PREFIX, sizes) == sizes == {name(0): 3, index_name(name(0)): 5}


def test_files_on_a_deletion_record_count_as_missing(storage):
    write(storage, name(0))
    assert sizes_of_shards(storage, PREFIX, [name(0)], frozenset({name(0)})) == {index_name(name(0)): 5}


def test_names_of_shards_that_are_gone_are_dropped_when_they_are_most_of_a_journal(storage):
    for sequence in range(150):
        note_shard(storage, name(sequence))
    forget_missing(storage, PREFIX, {name(sequence): 3 for sequence in range(100)})
    assert len(noted_shards(storage, PREFIX)) == 150
    forget_missing(storage, PREFIX, {name(7): 3})
    assert noted_shards(storage, PREFIX) == [name(7)]
