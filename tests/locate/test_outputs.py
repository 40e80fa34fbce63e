"""Shard folders of an output: audio, latents and columns with their snapshots."""

import pytest

from headrace.errors import ConfigError
from headrace.locate.outputs import (
    ITSELF,
    ShardFolder,
    folders_of_output,
    meant_folder,
    output_of,
    possible_folders,
    shard_folders,
    table_of_split,
    table_of_tars,
    view_folders,
)
from headrace.stores.storage import LocalStorage
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(2), "test": clips(1, first=9)}, latents=True)
    write_columns(folder, "metadata", {"title": ("string", str)})
    write_view(folder, "half", lambda key: key == "clip00000")
    (folder / "latents/killed").mkdir()
    (folder / "latents/killed/a.tar").write_bytes(b"")
    return LocalStorage(folder)


def test_folders_with_snapshots_come_audio_first(output):
    assert [folder.name for folder in folders_of_output(output)] == ["audio", "latents/crepe", "columns/metadata"]
    assert list(possible_folders(output)) == ["audio", "latents/crepe", "latents/killed", "columns/metadata"]
    assert [folder.name for folder in view_folders(output)] == ["views/half"]


def test_an_output_means_its_audio_and_a_shard_folder_itself(output):
    audio = output.at("audio")
    assert meant_folder(output) == ShardFolder("audio", audio, (1,))
    assert meant_folder(audio) == ShardFolder(ITSELF, audio, (1,))
    assert meant_folder(output.at("latents")) is None
    assert shard_folders(audio) == [ShardFolder(ITSELF, audio, (1,))]
    assert len(shard_folders(output)) == 3


@pytest.mark.parametrize(
    ("named", "name", "expected"),
    [
        ("s3://b/out/", "audio", "s3://b/out"),
        ("s3://b/out/audio", ITSELF, "s3://b/out"),
        ("s3://b/out/latents/crepe/", ITSELF, "s3://b/out"),
        ("out/columns/metadata", ITSELF, "out"),
    ],
)
def test_the_output_of_a_folder_is_the_one_around_it(output, named, name, expected):
    assert output_of(named, ShardFolder(name, output, (1,))) == expected


def test_a_split_has_its_own_rows_and_an_unknown_one_is_an_error_that_lists_those_there_are(output):
    audio = output.at("audio")
    snapshot = ShardFolder(ITSELF, audio, (1,)).snapshot()
    table, rows = table_of_split(audio, snapshot, "train")
    assert int(table.num_samples[rows].sum()) == 2
    table, rows = table_of_tars(audio, snapshot, None)
    assert int(table.num_samples[rows].sum()) == 3
    with pytest.raises(ConfigError, match="snapshot 1: no split 'val'; it has test, train"):
        table_of_split(audio, snapshot, "val")


def test_the_newest_snapshot_is_read_unless_another_is_asked_for(tmp_path):
    for number in (2, 3):
        write_dataset(tmp_path, {"train": clips(number)})
    folder = ShardFolder(ITSELF, LocalStorage(tmp_path / "audio"), (1, 2))
    assert [folder.snapshot(number).snapshot.num_samples for number in (None, 1, 2)] == [3, 2, 3]


def test_a_set_of_columns_has_no_tars(output):
    (columns,) = [folder for folder in folders_of_output(output) if folder.name == "columns/metadata"]
    with pytest.raises(ConfigError, match="a set of columns, which has no tars"):
        table_of_tars(columns.storage, columns.snapshot(), None)
