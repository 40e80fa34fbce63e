"""A snapshot of columns fits the audio snapshot that it names: the same shards, as many rows as samples."""

from dataclasses import replace

import pytest

from headrace.format.snapshots.snapshots import read_snapshot
from headrace.locate.outputs import shard_folders
from headrace.locate.shard_list import LocatedShard
from headrace.stores.storage import LocalStorage
from headrace.verification.column_fit import misfits, shard_misfits, with_partners
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def folders(output):
    return LocalStorage(output / "audio"), LocalStorage(output / "columns/mine")


def folder_of(output):
    return next(one for one in shard_folders(LocalStorage(output)) if one.name == "columns/mine")


def test_columns_of_their_audio_fit(folders, output):
    audio, columns = folders
    assert shard_misfits(audio, columns, read_snapshot(columns).snapshot) == []
    assert list(misfits(audio, folder_of(output))) == []


def test_columns_of_fewer_samples_are_named_by_their_shard(tmp_path):
    audio = write_dataset(tmp_path, {"train": clips(8)})
    write_columns(tmp_path, "mine", {spec("n", "int"): lambda clip: clip.number}, {"train": clips(7)}, audio)
    found = list(misfits(LocalStorage(tmp_path / "audio"), folder_of(tmp_path)))
    assert [fault.what for fault in found] == ["train_0000_000001: 3 samples, 2 rows"]


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"audio_snapshot": 9}, "the audio snapshot 9 does not exist"),
        ({"audio_fingerprint": "another"}, "the audio snapshot 1 is another one than these columns name"),
    ],
)
def test_columns_of_another_audio_snapshot_do_not_fit(folders, origin, message):
    audio, columns = folders
    snapshot = read_snapshot(columns).snapshot
    (fault,) = shard_misfits(audio, columns, replace(snapshot, origin=snapshot.origin | origin))
    assert fault.startswith(message)


def test_each_file_of_the_newest_columns_has_the_audio_shard_of_its_place(folders, output):
    audio, columns = folders
    shards = [LocatedShard(audio, path.name) for path in sorted((output / "audio").glob("*.tar"))]
    files = [LocatedShard(columns, path.name) for path in sorted((output / "columns/mine").glob("*.columns"))]
    found = with_partners(files, shards[::-1], folder_of(output), audio)
    assert [one.fits for one in found] == shards
    write_dataset(output, {"train": clips(9)})  # newer audio: the columns are of the one before
    assert with_partners(files, shards, folder_of(output), audio) == files
