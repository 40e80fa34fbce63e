"""Tests of `headrace.sources.folder_source`."""

import os

import pytest

from headrace.errors import ConfigError
from headrace.sources.folder_source import open_folder
from headrace.sources.sources import open_source
from tests.support.sources import write


def test_a_listing_is_given_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.sources.folder_source._CHUNK_ENTRIES", 3)
    for number in range(10):
        write(tmp_path / f"{number % 2}/{number}.wav")
    heights = [len(chunk) for chunk in open_source(tmp_path).list()]
    assert sum(heights) == 10
    assert max(heights) == 3


def test_a_tree_of_folders_without_files_gives_empty_chunks_so_that_a_caller_can_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.sources.folder_source._CHUNK_ENTRIES", 3)
    for number in range(10):
        (tmp_path / str(number) / "below").mkdir(parents=True)
    assert [len(chunk) for chunk in open_source(tmp_path).list()] == [0] * (20 // 3 + 1)


def test_the_error_about_something_in_place_of_the_source_folder_says_what_it_is(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("a.wav", rf"source\.uri {tmp_path}/a\.wav: a file, not a folder; name .* such as {tmp_path}$"),
        ("gone", r"gone: a broken link \(to .*/nowhere\), not a folder; name the folder"),
        ("pipe", "pipe: a named pipe, not a folder; name the folder"),
        ("absent", r"absent: there is no such folder \(looked for /"),
    ):
        with pytest.raises(ConfigError, match=words):
            open_folder(tmp_path / name)
