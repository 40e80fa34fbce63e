from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.stores.storage import LocalStorage, ObjectStorage, open_storage
from headrace.testing import StorageContract
from tests.support.failing_disks import refuses_links
from tests.support.s3 import new_bucket


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path):
        return LocalStorage(tmp_path / "not there yet")


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


@pytest.mark.parametrize("uri", ["{folder}", "memory://"])
def test_folders_and_buckets_leave_the_same_hidden_objects_out_of_a_listing(tmp_path, uri):
    storage = open_storage(uri.format(folder=tmp_path))
    for name in ("a.tar", "._a.tar", ".b/c.tar", "d/.DS_Store", "d/.e/f", "d/g.h", "d/.e.tar"):
        storage.write(name, b"x")
    wanted = {
        "": ["a.tar", "d/g.h"],
        "d/": ["d/g.h"],
        "d": ["d/g.h"],
        "d/.e": [],
        ".": [],
        ".b": [],
        "d/.e/": ["d/.e/f"],
    }
    assert {prefix: [entry.path for entry in storage.list(prefix)] for prefix in wanted} == wanted


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


def test_the_error_about_a_url_with_one_slash_suggests_two():
    with pytest.raises(ConfigError, match=r"s3:/bucket/a: a URL has two slashes after its scheme: s3://bucket/a"):
        open_storage("s3:/bucket/a")
