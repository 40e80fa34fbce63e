"""The columns of a set that fit an audio snapshot, and those of each of its shards."""

import pytest

from headrace.errors import FormatError, NotFoundError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset


def test_the_newest_columns_that_fit_are_read_by_the_names_of_audio_shards(tmp_path):
    audio, columns = LocalStorage(tmp_path / "audio"), LocalStorage(tmp_path / "columns/titles")
    first = write_dataset(tmp_path, {"train": clips(7)}).snapshot
    with pytest.raises(NotFoundError, match="no snapshot of these columns fits the audio snapshot"):
        fitting_columns(columns, first)
    for mark in "ab":
        write_columns(tmp_path, "titles", {"title": ("string", lambda key, mark=mark: key + mark)})
    second = write_dataset(tmp_path, {"train": clips(7, first=50)}).snapshot
    with pytest.raises(NotFoundError, match="no snapshot of these columns fits the audio snapshot"):
        fitting_columns(columns, second)
    found = fitting_columns(columns, first)
    assert [spec.name for spec in found.specs] == ["title"]
    names = read_table(audio, first).names()
    titles = [found.read(name).column("title").take(range(len(found.read(name)))) for name in names]
    assert titles == [[f"{clip.key}b" for clip in part] for part in (clips(7)[:5], clips(7)[5:])]


def test_a_shard_of_other_audio_is_an_error_that_names_it(tmp_path):
    write_dataset(tmp_path, {"train": clips(2)})
    write_columns(tmp_path, "titles", {"title": ("string", str)})
    found = fitting_columns(
        LocalStorage(tmp_path / "columns/titles"), read_snapshot(LocalStorage(tmp_path / "audio")).snapshot
    )
    with pytest.raises(FormatError, match=r"snapshot 1 has no columns for test_0000_000000-0123456789ab\.tar"):
        found.file_of("test_0000_000000-0123456789ab.tar")
