"""Files below a folder are listed sorted, without hidden ones and what is no file."""

import os
from pathlib import Path

from headrace.stores.folder_walk import walk, walk_odd
from headrace.stores.storage import LocalStorage


def test_broken_links_and_loops_of_links_are_not_files(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"a")
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    (tmp_path / "gone.wav").symlink_to("absent")
    assert [entry.path for entry in LocalStorage(tmp_path).list()] == ["a.wav"]


def test_paths_come_sorted_as_whole_paths_and_folders_without_the_prefix_are_not_read(tmp_path, monkeypatch):
    for name in ("a/z", "a-b", "a.b/c", "b/d", ".hidden/e", "a/.f"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert [path for path, _ in walk(tmp_path, "", "")] == ["a-b", "a.b/c", "a/z", "b/d"]
    assert [path for path, _ in walk(tmp_path / "a", "a/", "")] == ["a/z"]
    assert list(walk(tmp_path / "absent", "", "")) == []
    read = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: read.append(Path(folder).name) or scandir(folder))
    assert [path for path, _ in walk(tmp_path, "", "a.b/")] == ["a.b/c"]
    assert read == [tmp_path.name, "a.b"]


def test_names_that_lead_to_no_regular_file_are_listed_as_odd(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"a")
    (tmp_path / "link.tar").symlink_to("a.tar")
    (tmp_path / "gone.tar").symlink_to("absent")
    (tmp_path / "loop.tar").symlink_to("loop.tar")
    (tmp_path / "folder.tar").mkdir()
    os.mkfifo(tmp_path / "pipe.tar")
    assert list(walk_odd(tmp_path, "", "")) == ["folder.tar", "gone.tar", "loop.tar", "pipe.tar"]
    assert list(walk_odd(tmp_path, "", "g")) == ["gone.tar"]
