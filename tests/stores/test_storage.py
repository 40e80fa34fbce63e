import errno
import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.errors import ConfigError, StorageError
from headrace.stores.storage import LocalStorage, ObjectStorage, open_storage
from tests.support.contracts import StorageContract
from tests.support.s3 import new_bucket


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path):
        return LocalStorage(tmp_path / "not there yet")


def refuses_links(self, target):
    """`Path.hardlink_to` on exFAT: it fails."""
    raise PermissionError(errno.EPERM, "Operation not permitted")


class TestLocalStorageWithoutHardLinks(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Path, "hardlink_to", refuses_links)
        return LocalStorage(tmp_path / "stick")


class TestMemory(StorageContract):
    @pytest.fixture
    def storage(self):
        return open_storage("memory://")


class TestObjectStoreOverHttp(StorageContract):
    """An S3 store over HTTP, served by moto."""

    @pytest.fixture
    def storage(self, s3_server, monkeypatch):
        return open_storage(f"{new_bucket(s3_server, monkeypatch)}/some/prefix/")


def test_the_scheme_of_a_uri_selects_the_store(tmp_path):
    assert open_storage(tmp_path) == LocalStorage(tmp_path)
    assert open_storage(f"file://{tmp_path}/with%20space").local_path("a") == tmp_path / "with space" / "a"
    assert open_storage(f"file://localhost{tmp_path}/a") == LocalStorage(tmp_path / "a")
    assert open_storage(f"file://{tmp_path}/why?#2[1]") == LocalStorage(tmp_path / "why?#2[1]")
    with pytest.raises(ConfigError, match="three slashes before an absolute path: file:///data/birds"):
        open_storage("file://data/birds")
    assert open_storage(f"FILE://{tmp_path}/a") == LocalStorage(tmp_path / "a")
    with pytest.raises(ConfigError, match="%00 is the NUL character"):
        open_storage("file:///data/bi%00rds")
    assert isinstance(open_storage("s3://bucket/prefix"), ObjectStorage)
    with pytest.raises(ConfigError, match=r"'ftp'.*s3"):
        open_storage("ftp://host/folder")


def test_opening_a_store_creates_nothing(tmp_path):
    storage = open_storage(tmp_path / "absent")
    assert list(storage.list()) == []
    assert not (tmp_path / "absent").exists()
    open_storage("s3://a-bucket-that-is-not-there/prefix")


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


def test_a_file_system_without_exclusive_creation_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "hardlink_to", refuses_links)
    monkeypatch.setattr("headrace.stores.exclusive_files.sys", SimpleNamespace(platform="somewhere else"))
    with pytest.raises(StorageError, match=r"1\.json .*neither hard links nor .*; build on another one"):
        LocalStorage(tmp_path).create("1.json", b"x")
    assert list(tmp_path.iterdir()) == []


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


def test_broken_links_and_loops_of_links_are_not_files(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"a")
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    (tmp_path / "gone.wav").symlink_to("absent")
    assert [entry.path for entry in LocalStorage(tmp_path).list()] == ["a.wav"]


def test_create_syncs_the_content_before_the_name_and_then_the_name(tmp_path, monkeypatch):
    """A power failure must not leave an empty manifest, because its number could never be used again."""
    synced = []

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.is_dir() or path.read_bytes(), (tmp_path / "manifests/1.json").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    LocalStorage(tmp_path).create("manifests/1.json", b"{}")
    assert synced == [(b"{}", False), (True, True)]


def test_the_error_about_a_url_with_one_slash_suggests_two():
    with pytest.raises(ConfigError, match=r"s3:/bucket/a: a URL has two slashes after its scheme: s3://bucket/a"):
        open_storage("s3:/bucket/a")
