"""The counts of lengths that manifests have: those that the indexes give, without reading any."""

import json
import shutil
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import FrameBudget, StreamingDataset
from headrace.errors import NotFoundError, StorageError, StoreUnavailableError
from headrace.format.manifests.length_census import cell_of, count_lengths
from headrace.format.manifests.manifests import NumberedManifest, newest_manifests
from headrace.format.manifests.stored_census import StoredCensus
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.format.versioned_json import versioned_bytes
from headrace.stores.storage import LocalStorage
from headrace.streaming.opened import known_lengths, stored_lengths
from headrace.streaming.opened.known_lengths import IndexLengths
from headrace.streaming.opened.stored_lengths import stored_census
from tests.support.streaming.corpus import RATE_HZ, clips, write_dataset
from tests.support.view_fixtures import write_view

BUDGET = FrameBudget(60_000, batch_multiple=4)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Two splits, latents with a rejected sample, and another rate in one split."""
    folder = tmp_path_factory.mktemp("corpus")
    slow = [replace(clip, rate_hz=RATE_HZ // 2) for clip in clips(12)]
    train = clips(60, frames=(100, 3000))
    train[7] = replace(train[7], rejection="silent")
    write_dataset(folder, {"test": slow, "train": train}, per_shard=7, latents=True)
    return folder


def opened(folder, cache, **more):
    asked_for = {"split": "train", "batch_size": 8, "shuffle": True, "batching": BUDGET} | more
    return StreamingDataset(remote=str(folder), local=str(cache), **asked_for)


def ids_of(dataset):
    run = dataset.epochs.next_run()
    return [run.plan(index).rows.sample_ids.tolist() for index in range(len(run))]


def both(dataset):
    """The counts from the manifests, and from the indexes."""
    primary = dataset.reading.readers[0].primary.shards
    samples = dataset.epochs._samples
    parts = known_lengths._parts(
        primary.shards.num_samples, 0, IndexLengths(SimpleNamespace(reading=dataset.reading), samples)
    )
    return stored_census(primary, samples), count_lengths(parts)


def content(census):
    return census.first_cell, census.counts.tolist(), census.longest.tolist()


@pytest.mark.parametrize("folder", ["audio", "latents/crepe"])
@pytest.mark.parametrize("split", ["train", "test", None])
@pytest.mark.parametrize(
    "more",
    [{}, {"crop_frames": 1}, {"crop_frames": 9}, {"crop_frames": 500}, {"crop_frames": 99_999}, {"crop_seconds": 0.1}],
    ids=str,
)
def test_manifests_say_what_the_indexes_do(spoken, tmp_path, folder, split, more):
    stored, counted = both(opened(spoken / folder, tmp_path, split=split, **more))
    assert content(stored) == content(counted)


def test_nothing_is_read_of_the_indexes_before_the_first_batch(spoken, tmp_path, asked):
    dataset = opened(spoken / "audio", tmp_path)
    assert dataset.num_batches > 2
    assert asked == []


def test_batches_are_those_of_counted_samples(spoken, tmp_path, asked, monkeypatch):
    found = ids_of(opened(spoken / "audio", tmp_path / "a", crop_frames=800))
    assert asked
    asked.clear()
    monkeypatch.setattr(known_lengths, "stored_census", lambda shards, samples: None)
    assert ids_of(opened(spoken / "audio", tmp_path / "b", crop_frames=800)) == found
    assert asked[0] == 60


@pytest.mark.parametrize("more", [{"sample_rate": RATE_HZ}, {"sample_rate": RATE_HZ, "crop_seconds": 0.1}], ids=str)
def test_audio_of_the_wanted_rate_is_not_resampled(spoken, tmp_path, more):
    stored, counted = both(opened(spoken / "audio", tmp_path, **more))
    assert content(stored) == content(counted)


@pytest.mark.parametrize(
    "more", [{"sample_rate": RATE_HZ // 4}, {"sample_rate": RATE_HZ, "split": None}], ids=["one", "some"]
)
def test_resampled_audio_is_counted_from_the_indexes(spoken, tmp_path, asked, more):
    dataset = opened(spoken / "audio", tmp_path, **more)
    assert dataset.num_batches
    assert sum(asked) == dataset.size
    assert both(dataset)[0] is None


def test_a_crop_in_seconds_of_a_partition_of_several_rates_is_counted_from_the_indexes(tmp_path):
    mixed = [replace(clip, rate_hz=RATE_HZ // (1 + clip.number % 2)) for clip in clips(12)]
    write_dataset(tmp_path, {"train": mixed})
    assert both(opened(tmp_path, tmp_path / "cache", crop_seconds=0.05))[0] is None
    stored, counted = both(opened(tmp_path, tmp_path / "cache", crop_frames=400))
    assert content(stored) == content(counted)


def _rewritten(folder, change):
    """Change the content of the only manifest, keeping its checksum right."""
    (path,) = (folder / "audio" / "manifests").glob("*/*.json")
    found = json.loads(path.read_text())
    del found["headrace_manifest"], found["crc32"]
    change(found)
    path.write_bytes(versioned_bytes("headrace_manifest", found))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: _rewritten(folder, lambda found: found.update(wanted="other")),
        lambda folder: next((folder / "audio" / "manifests").glob("*/*.json")).write_text("{"),
        lambda folder: next((folder / "audio" / "manifests").glob("*/*.json")).unlink(),
    ],
    ids=["another manifest", "damaged", "missing"],
)
def test_without_the_manifest_of_the_snapshot_the_samples_are_counted(tmp_path, asked, spoil, caplog):
    write_dataset(tmp_path, {"train": clips(12)})
    expected = ids_of(opened(tmp_path, tmp_path / "before"))
    spoil(tmp_path)
    asked.clear()
    assert ids_of(opened(tmp_path, tmp_path / "after")) == expected
    assert asked[0] == 12
    assert "do not say how long" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        {"count_bytes": 3},
        {"counts": "AAAA"},
        {"counts": "a"},
        {"counts": "AA AA"},
        {"longest": []},
    ],
    ids=str,
)
def test_counts_that_contradict_themselves_are_not_used(spoken, tmp_path, change, monkeypatch):
    read = stored_lengths.read_lengths
    monkeypatch.setattr(stored_lengths, "read_lengths", lambda *names: StoredCensus(**asdict(read(*names)) | change))
    assert both(opened(spoken / "audio", tmp_path))[0] is None


def test_manifests_that_may_not_be_read_are_no_obstacle_but_a_store_that_does_not_answer_is(
    spoken, tmp_path, monkeypatch, asked
):
    def refuse(error):
        def read(*_):
            raise error

        monkeypatch.setattr(stored_lengths, "read_lengths", read)

    refuse(StorageError("manifests/train-0000: access denied"))
    assert opened(spoken / "audio", tmp_path / "a").num_batches
    assert sum(asked) == 60
    refuse(StoreUnavailableError("no answer"))
    with pytest.raises(StoreUnavailableError, match="no answer"):
        assert opened(spoken / "audio", tmp_path / "b").num_batches


def test_a_manifest_keeps_its_counts_when_it_is_written_and_read(spoken):
    for found in newest_manifests(LocalStorage(spoken / "audio")).values():
        assert found.manifest.lengths is not None
        assert len(found.manifest.lengths.census.counts) == len(found.manifest.shards)
        read = type(found.manifest).from_json(found.manifest.to_json(), "x")
        assert NumberedManifest(1, read) == NumberedManifest(1, found.manifest)


def test_samples_of_a_view_are_counted_from_the_indexes(tmp_path, asked):
    write_dataset(tmp_path, {"train": clips(12)})
    counts = {"clip00001": 0, "clip00002": 2}
    write_view(tmp_path, "some", lambda key: counts.get(key, 1))  # every shard has as many samples as before
    dataset = opened(tmp_path, tmp_path / "cache", view="some")
    assert dataset.num_batches
    assert sum(asked) == dataset.size == 12
    assert both(dataset)[0] is None


def test_samples_of_tars_without_a_snapshot_are_counted_from_the_indexes(tmp_path, asked, caplog):
    write_dataset(tmp_path, {"train": clips(12)})
    for folder in ("snapshots", "manifests"):
        shutil.rmtree(tmp_path / "audio" / folder)
    dataset = opened(tmp_path / "audio", tmp_path / "cache", split=None)
    assert dataset.num_batches
    assert sum(asked) == 12
    assert both(dataset)[0] is None
    assert "manifests" not in caplog.text


def test_a_split_without_shards_has_no_counts(tmp_path, caplog):
    write_dataset(tmp_path, {"train": clips(12), "test": []})
    dataset = opened(tmp_path, tmp_path / "cache")
    primary = dataset.reading.readers[0].primary.shards
    nothing = replace(primary, shards=replace(primary.shards, rows=slice(0, 0)))
    assert stored_census(nothing, dataset.epochs._samples) is None
    assert "manifests" not in caplog.text


def test_a_stream_of_one_shard_has_counts(tmp_path):
    write_dataset(tmp_path, {"train": clips(3)})
    stored, counted = both(opened(tmp_path, tmp_path / "cache"))
    assert content(stored) == content(counted)


def test_a_snapshot_that_gc_removed_is_no_obstacle(spoken, tmp_path, asked, monkeypatch):
    def gone(storage, number=None):
        found = read_snapshot(storage, number)
        raise NotFoundError(f"snapshot {found.number} is gone")

    monkeypatch.setattr(stored_lengths, "read_snapshot", gone)
    assert opened(spoken / "audio", tmp_path).num_batches
    assert sum(asked) == 60


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.lists(st.integers(0, 1 << 20) | st.integers(0, 40), max_size=9), max_size=5),
    crop=st.integers(1, 1 << 20) | st.integers(1, 40),
)
def test_cropped_counts_are_those_of_cropped_samples(lengths, crop):
    sizes = np.array([len(shard) for shard in lengths], np.int64)
    frames = np.array([length for shard in lengths for length in shard], np.int64)
    cropped = count_lengths([(sizes, frames)]).cropped(crop)
    expected = count_lengths([(sizes, np.minimum(frames, crop))])
    assert content(cropped) == content(expected)
    if len(frames):
        assert cropped.first_cell == cell_of(np.minimum(frames, crop)).min()
