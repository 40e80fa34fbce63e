"""A name is given once, durably, or the error says that the file system cannot."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.errors import StorageError
from headrace.stores.storage import LocalStorage
from tests.support.failing_disks import refuses_links


def test_a_file_system_without_exclusive_creation_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "hardlink_to", refuses_links)
    monkeypatch.setattr("headrace.stores.exclusive_files.sys", SimpleNamespace(platform="somewhere else"))
    with pytest.raises(StorageError, match=r"1\.json .*neither hard links nor .*; build on another one"):
        LocalStorage(tmp_path).create("1.json", b"x")
    assert list(tmp_path.iterdir()) == []


def test_create_syncs_the_content_before_the_name_and_then_the_name(tmp_path, monkeypatch):
    """A power failure must not leave an empty manifest, because its number could never be used again."""
    synced = []

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.is_dir() or path.read_bytes(), (tmp_path / "manifests/1.json").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    LocalStorage(tmp_path).create("manifests/1.json", b"{}")
    assert synced == [(b"{}", False), (True, True)]
