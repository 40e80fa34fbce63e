"""Records of files that a gc is about to delete."""

import errno

import pytest

from headrace.format.shards.condemned import condemned, condemned_paths
from headrace.stores.storage import LocalStorage, open_storage


def test_a_deletion_record_counts_until_its_gc_has_ended(tmp_path):
    for storage in (LocalStorage(tmp_path), open_storage("memory://")):
        with condemned(storage, ["a.tar"]):
            assert condemned_paths(storage) == {"a.tar"}
            with condemned(storage, ["b.tar"]):
                assert condemned_paths(storage) == {"a.tar", "b.tar"}
            assert condemned_paths(storage) == {"a.tar"}
        assert condemned_paths(storage) == frozenset()
        assert list(storage.list()) == []


def test_in_a_folder_without_locks_the_record_counts(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("headrace.format.shards.condemned.fcntl.flock", refuse)
    storage = LocalStorage(tmp_path)
    with pytest.raises(KeyError), condemned(storage, ["a.tar"]):
        raise KeyError
    monkeypatch.undo()
    assert condemned_paths(storage) == {"a.tar"}
