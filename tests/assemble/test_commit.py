"""A snapshot is committed when all partitions are up to date; another writer that is faster is tried again."""

import pytest

from headrace.assemble import commit
from headrace.assemble.commit import check_lasts, commit_columns, commit_latents, commit_partitions
from headrace.assemble.latents import LatentSettings
from headrace.errors import AlreadyExistsError, BuildError, StaleError
from headrace.format.manifests.manifests import Manifest, ManifestRejection, commit_manifest
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def audio(tmp_path):
    write_dataset(tmp_path, {"train": clips(3), "test": clips(2)})
    return LocalStorage(tmp_path / "audio")


def wanted(audio):
    return {name: frozen.wanted for name, frozen in read_snapshot(audio).snapshot.partitions.items()}


def test_what_is_committed_already_is_not_committed_again(audio):
    first, is_new, rejections = commit_partitions(audio, wanted(audio), "another catalog")
    assert (first.number, is_new, rejections) == (2, True, {})
    assert commit_partitions(audio, wanted(audio), "another catalog")[:2] == (first, False)


def test_partitions_that_left_the_layout_are_not_in_the_snapshot(audio):
    found, _, _ = commit_partitions(audio, {"train-0000": wanted(audio)["train-0000"]}, "catalog")
    assert list(found.snapshot.partitions) == ["train-0000"]


def test_stale_partitions_are_named_and_nothing_is_committed(audio):
    stale = wanted(audio) | {"train-0000": "other", "train-0001": "missing"}
    with pytest.raises(StaleError, match=r"2 of 3 partitions .*train-0000 \(.*train-0001 \("):
        commit_partitions(audio, stale, "catalog")
    assert read_snapshot(audio).number == 1


def test_a_snapshot_without_a_sample_is_refused_with_the_reasons():
    storage = open_storage("memory://")
    refused = tuple(ManifestRejection(f"{one}.wav", "empty", "no bytes", "") for one in range(7))
    commit_manifest(storage, Manifest("train-0000", "w", "s", {}, (), refused), None)
    with pytest.raises(BuildError, match=r"7 recordings are rejected: 0\.wav: no bytes; .*; and 2 more"):
        commit_partitions(storage, {"train-0000": "w"}, "catalog")


def test_after_five_faster_writers_the_build_gives_up(audio, monkeypatch):
    calls = []

    def beaten(*arguments):
        calls.append(arguments)
        raise AlreadyExistsError("another one")

    monkeypatch.setattr(commit, "commit_snapshot", beaten)
    with pytest.raises(BuildError, match="other writers kept committing snapshots"):
        commit_partitions(audio, wanted(audio), "catalog")
    assert len(calls) == 5


def test_latents_and_columns_of_other_audio_are_stale(audio, tmp_path):
    empty = LocalStorage(tmp_path / "empty")
    with pytest.raises(StaleError, match="2 of 2 partitions have no latents of audio snapshot 1"):
        commit_latents(audio, empty, LatentSettings("encoder", "float16"))
    with pytest.raises(StaleError, match="2 of 2 partitions have no columns of audio snapshot 1 and the present rows"):
        commit_columns(audio, empty, "mine", {})


def test_an_audio_snapshot_that_is_gone_cannot_be_the_origin(audio):
    newest = read_snapshot(audio)
    check_lasts(audio, newest)
    audio.delete("snapshots/00000001.json")
    with pytest.raises(AlreadyExistsError, match="gc removes this audio snapshot"):
        check_lasts(audio, newest)
