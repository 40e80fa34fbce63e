"""A local folder as a store: its files, temporary ones and writes in pieces."""

import multiprocessing
import os

import pytest

from headrace.errors import StorageError
from headrace.stores.storage import LocalStorage


def test_hidden_files_are_never_listed(tmp_path):
    storage = LocalStorage(tmp_path)
    storage.write("a.tar", b"x")
    (tmp_path / ".a.tar.0123.headrace-tmp").write_bytes(b"half")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "b.tar").write_bytes(b"x")
    assert [entry.path for entry in storage.list()] == ["a.tar"]
    assert [path.name for path in storage.leftovers()] == [".a.tar.0123.headrace-tmp"]


def test_a_failed_write_keeps_the_old_content_and_leaves_no_files(tmp_path):
    class Failing:
        def read(self, size=-1):
            raise OSError(28, "No space left on device")

    storage = LocalStorage(tmp_path)
    storage.write("a", b"before")
    with pytest.raises(StorageError, match=r"a in .*No space left"):
        storage.write("a", Failing())
    assert storage.read("a") == b"before"
    assert list(storage.leftovers()) == []


def test_pieces_are_written_to_the_end_if_the_system_takes_a_few_bytes_at_a_time(tmp_path, monkeypatch):
    def takes_seven_bytes(descriptor, pieces):
        return os.write(descriptor, b"".join(pieces)[:7])

    monkeypatch.setattr(os, "writev", takes_seven_bytes)
    pieces = [b"", b"abc", b"defghijklmnopq", b"", *[b"%d" % number for number in range(1500)], b""]
    storage = LocalStorage(tmp_path)
    storage.write("a", pieces)
    assert storage.read("a") == b"".join(pieces)


def test_a_call_writes_at_most_two_mebibytes(tmp_path, monkeypatch):
    """A longer one may be several times as slow on a virtual machine (`_parts_of_calls`)."""
    writev, calls = os.writev, []

    def counted(descriptor, pieces):
        calls.append(sum(map(len, pieces)))
        return writev(descriptor, pieces)

    monkeypatch.setattr(os, "writev", counted)
    pieces = [os.urandom(num_bytes) for num_bytes in (700_000, 700_000, 1, 5 << 20, 0, 300_000)]
    storage = LocalStorage(tmp_path)
    storage.write("a", pieces)
    assert storage.read("a") == b"".join(pieces)
    assert max(calls) < 2 << 20
    assert len(calls) <= sum(map(len, pieces)) // (1 << 20) + 1


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path):
    storage = LocalStorage(tmp_path)
    storage.write("a/b", b"x")
    assert not storage.exists("a")
    with pytest.raises(StorageError):
        storage.read("a")
    with pytest.raises(StorageError):
        storage.write("a/b/c", b"below a file")


def _child(storage, results):
    results.put(storage.read("a"))


def test_a_local_store_works_on_both_sides_of_a_fork(tmp_path):
    storage = LocalStorage(tmp_path)
    storage.write("a", b"x")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_child, args=(storage, results))
    child.start()
    assert results.get(timeout=60) == b"x"
    child.join()
