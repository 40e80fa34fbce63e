"""Errors that prevent a scan: those found before the source is read, and those found from the names of its files."""

import pytest

from headrace.catalog.stored.update import check_output, update_catalog, why_no_recordings
from headrace.errors import ConfigError, StorageError
from headrace.stores.storage import LocalStorage
from tests.support.catalog_fakes import FakeSource, fake_runtime
from tests.support.projects import Project


def scanned(tmp_path, *names):
    project = Project(tmp_path)
    project.write_yaml()
    source = FakeSource()
    for name in names:
        source.put(name, b"bad")
    scan, _ = update_catalog(project.config(), source, None, LocalStorage(tmp_path / "store"), fake_runtime())
    return scan


NO_RECORDINGS = {
    (): ": the folder has no files, apart from those that are hidden or that source.ignore names; "
    "name the folder of the recordings",
    ("bad.wav",): ": 1 files found, none is usable: see the reasons of their rejection",
    ("notes.txt",): ": 1 files found, none is usable: see the reasons of their rejection",
    ("a.tar", "b.tar"): ": tar files need no build, a loader reads them as they are (remote='x')",
    ("data/a.parquet",): ": the folder is a data set of Parquet files (data/a.parquet), see docs/migrating.md",
}


@pytest.mark.parametrize(("names", "words"), NO_RECORDINGS.items())
def test_the_error_about_a_source_without_recordings_says_what_the_source_contains(tmp_path, names, words):
    said = why_no_recordings(scanned(tmp_path, *names), "x")
    assert said.startswith("source.uri x: ")
    assert said.endswith(words)


def test_a_source_with_a_recording_is_accepted(tmp_path):
    project = Project(tmp_path)
    project.write_yaml()
    source = FakeSource()
    source.put("a.wav", b"12")
    scan, _ = update_catalog(project.config(), source, None, LocalStorage(tmp_path / "store"), fake_runtime())
    assert why_no_recordings(scan, "x") is None


def test_an_output_that_is_a_file_is_an_error_before_the_source_is_opened(tmp_path):
    project = Project(tmp_path)
    project.write_yaml()
    (tmp_path / "taken").write_text("x")
    source = FakeSource()
    source.put("a.wav", b"12")
    for root in (tmp_path / "taken", tmp_path / "taken/below"):
        with pytest.raises(ConfigError, match=rf"output\.uri {root}: {tmp_path}/taken is a file"):
            update_catalog(project.config(), source, None, LocalStorage(root), fake_runtime())
    assert source.opened == []


def test_an_output_that_does_not_exist_yet_or_is_a_bucket_is_accepted(tmp_path):
    check_output(LocalStorage(tmp_path / "a/b/c"))
    check_output(FakeSource())


def test_an_output_of_another_tool_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.catalog.stored.update.os.access", lambda path, mode: False)
    with pytest.raises(ConfigError, match=rf"out: this user may not write to the folder {tmp_path}; name another"):
        check_output(LocalStorage(tmp_path / "out"))


def test_the_error_about_a_file_in_place_of_a_folder_does_not_blame_another_writer(tmp_path):
    (tmp_path / "taken").write_text("x")
    for write in (LocalStorage.write, LocalStorage.create):
        for root in (tmp_path / "taken", tmp_path):
            with pytest.raises(StorageError, match=r"taken.*: the folder cannot be created") as caught:
                write(LocalStorage(root), "taken/a", b"")
            assert type(caught.value) is StorageError
