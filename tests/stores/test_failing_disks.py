"""Errors of the operating system become Headrace errors that name the file, for every operation."""

import errno
import os
import shutil

import pytest

from headrace.catalog.stored.header import HEADER_PATH
from headrace.catalog.stored.parts import existing_catalog
from headrace.cli import main
from headrace.errors import NotFoundError, StorageError
from headrace.exports.exporting import export_snapshot
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage
from headrace.upkeep.gc import collect, find_garbage, find_leftovers
from tests.support.builds import twenty_clips
from tests.support.failing_disks import FAILED
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def fail(monkeypatch):
    """Make a function of `os` fail for paths that contain a word."""

    def do(name, word):
        real = getattr(os, name)

        def failing(path, *args, **more):
            if word in os.fspath(path):
                raise OSError(errno.EIO, FAILED, os.fspath(path))
            return real(path, *args, **more)

        monkeypatch.setattr(os, name, failing)

    return do


@pytest.fixture
def output(tmp_path):
    """An output with two snapshots."""
    for count in (2, 4):
        write_dataset(tmp_path / "out", {"train": clips(count)})
    return tmp_path / "out"


def test_an_error_when_listing_a_folder_names_it(output, fail):
    fail("scandir", "snapshots")
    storage = LocalStorage(output)
    with pytest.raises(StorageError, match=f"audio/snapshots.*{FAILED}"):
        list(storage.list("audio/snapshots/"))
    with pytest.raises(StorageError, match=FAILED):
        list(storage.list_odd())


def test_an_error_when_inspecting_a_file_names_it(output, fail):
    (output / ".x.headrace-tmp").write_bytes(b"")
    fail("stat", "headrace-tmp")
    with pytest.raises(StorageError, match=FAILED):
        LocalStorage(output).exists(".x.headrace-tmp")
    with pytest.raises(StorageError, match=FAILED):
        find_leftovers(LocalStorage(output), now_seconds=1e12)


def test_if_the_deletion_record_cannot_be_written_gc_deletes_nothing(output, fail):
    storage = LocalStorage(output)
    found = find_garbage(storage, keep=1, now_seconds=1e12)
    before = sorted(output.rglob("*"))
    fail("mkdir", "condemned")
    with pytest.raises(StorageError, match=rf"condemned/.*\.json in .*audio: {FAILED}"):
        collect(storage, found, clock=lambda: 0.0)
    assert sorted(output.rglob("*")) == before


def test_an_error_when_exporting_a_shard_names_it(output, tmp_path, fail, capsys):
    fail("replace", "plain/.headrace-export/train_")
    assert main(["export", str(output), str(tmp_path / "plain")]) == 1
    assert FAILED in capsys.readouterr().err


def test_the_error_about_a_missing_shard_in_an_export_names_it(output, tmp_path):
    shutil.copytree(output, tmp_path / "copy")
    audio = LocalStorage(tmp_path / "copy/audio")
    victim = read_table(audio, read_snapshot(audio).snapshot).name(0)
    audio.delete(victim)
    with pytest.raises(NotFoundError, match=victim):
        export_snapshot(audio, LocalStorage(tmp_path / "plain"))


@pytest.mark.medium
def test_an_unreadable_catalog_is_not_reported_as_damaged(tmp_path, monkeypatch):
    """The advice to delete it would be wrong."""
    project = twenty_clips(tmp_path)
    project.build()
    part = next(existing_catalog(project.output).header.parts())

    class Failing(LocalStorage):
        def read(self, path):
            if path == victim:
                raise StorageError(f"{path}: {FAILED}")
            return super().read(path)

        def open(self, path):
            raise AssertionError("reads of such a file would fail with errors of the system")

    for victim in (HEADER_PATH, part.path):
        with pytest.raises(StorageError, match=rf"{victim}: {FAILED}"):
            existing_catalog(Failing(project.folder / "output")).rejected()


def test_an_error_when_reading_a_range_names_the_file(output, monkeypatch):
    def failing(descriptor, num_bytes, start):
        raise OSError(errno.EIO, FAILED)

    monkeypatch.setattr(os, "pread", failing)
    with pytest.raises(StorageError, match=rf"sizes\.json in .*audio: {FAILED}"):
        LocalStorage(output / "audio").read_ranges("sizes.json", [(0, 2)])
