"""The census of lengths in the cache folder: made once, shared, made again where it does not fit."""

import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headrace import FrameBudget, StreamingDataset
from headrace.errors import FormatError
from headrace.streaming.opened import known_lengths
from headrace.streaming.opened.known_lengths import IndexLengths
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.samples import stream_reader
from headrace.streaming.samples.stream_reader import StreamReader
from tests.support.streaming.corpus import RATE_HZ, clips, write_dataset

BUDGET = FrameBudget(60_000, batch_multiple=4)


@pytest.fixture(autouse=True)
def _manifests_without_lengths(monkeypatch):
    monkeypatch.setattr(known_lengths, "stored_census", lambda shards, samples: None)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_dataset(folder, {"train": clips(60, frames=(100, 3000)), "test": clips(12)}, per_shard=10)
    return folder


def opened(spoken, cache, **more):
    settings = {"split": "train", "batch_size": 8, "shuffle": True, "batching": BUDGET} | more
    return StreamingDataset(remote=f"{spoken}/audio", local=str(cache), **settings)


def ids_of(dataset):
    run = dataset.epochs.next_run()
    return [run.plan(index).rows.sample_ids.tolist() for index in range(len(run))]


def test_lengths_are_counted_once_for_all_processes_epochs_and_seeds(spoken, tmp_path, asked):
    first = opened(spoken, tmp_path)
    num_batches = first.num_batches
    assert num_batches > 2
    assert sum(asked) == 60
    asked.clear()
    for dataset in (first, opened(spoken, tmp_path), opened(spoken, tmp_path, shuffle_seed=3)):
        assert dataset.epochs.next_run().row_after(0) == 0
        state = dataset.state_dict(num_samples=dataset.epochs.next_run().row_after(2))
        dataset.load_state_dict(state)
        assert len(dataset.epochs.next_run()) == num_batches - 2
    assert asked == []
    assert len(list((tmp_path / "lengths").glob("*.lengths"))) == 1


@pytest.mark.parametrize("more", [{"split": "test"}, {"crop_frames": 500}, {"sample_rate": 4000}], ids=str)
def test_other_samples_and_other_lengths_are_counted_apart(spoken, tmp_path, asked, more):
    before = ids_of(opened(spoken, tmp_path))
    asked.clear()
    assert ids_of(opened(spoken, tmp_path, **more)) != before
    assert sum(asked[:1]) == (12 if "split" in more else 60)
    assert len(list((tmp_path / "lengths").glob("*.lengths"))) == 2


@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "nonsense", "flip"])
def test_a_damaged_file_is_made_again(spoken, tmp_path, asked, damage):
    expected = ids_of(opened(spoken, tmp_path))
    (path,) = (tmp_path / "lengths").glob("*.lengths")
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(bytes(blob) if damage is None else damage)
    asked.clear()
    assert ids_of(opened(spoken, tmp_path)) == expected
    assert asked[0] == 60
    asked.clear()
    opened(spoken, tmp_path).epochs.next_run()
    assert asked == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(spoken, tmp_path, caplog):
    (tmp_path / "lengths").write_text("no folder")
    assert ids_of(opened(spoken, tmp_path)) == ids_of(opened(spoken, tmp_path / "other"))
    assert "counted again in each run" in caplog.text


def test_processes_that_open_together_count_once(spoken, tmp_path, asked):
    datasets = [opened(spoken, tmp_path) for _ in range(4)]
    found = []
    threads = [threading.Thread(target=lambda one=one: found.append(len(one.epochs.next_run()))) for one in datasets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert sum(asked) == 60


@pytest.mark.parametrize(
    "case",
    [
        ("_SHARDS_AT_ONCE", 4, [40, 20]),
        ("_SAMPLES_AT_ONCE", 29, [20, 20, 20]),
        ("_SAMPLES_AT_ONCE", 30, [30, 30]),
        ("_SAMPLES_AT_ONCE", 1, [10] * 6),
    ],
)
def test_lengths_are_counted_in_parts(spoken, tmp_path, asked, monkeypatch, case):
    limit, number, parts = case
    expected = ids_of(opened(spoken, tmp_path / "whole"))
    asked.clear()
    monkeypatch.setattr(known_lengths, limit, number)
    assert ids_of(opened(spoken, tmp_path / "parts")) == expected
    assert asked[: len(parts)] == parts


@pytest.mark.parametrize("more", [{}, {"crop_seconds": 0.05}, {"sample_rate": 4000}], ids=str)
def test_indexes_of_a_store_are_read_side_by_side_and_once(server, tmp_path, monkeypatch, more):
    """Also those of shards of one sample, whose rate no table has."""
    sizes = []
    monkeypatch.setattr(stream_reader, "map_on_threads", lambda task, items, _: sizes.append(len(items)))
    dataset = StreamingDataset(remote=f"{server.uri}/audio", local=str(tmp_path), batch_size=4, **more)
    reader = dataset.reading.readers[0]
    num_shards = len(reader.primary.shards)
    lengths = IndexLengths(SimpleNamespace(reading=dataset.reading), dataset.epochs._samples)
    lengths(Rows(np.zeros(dataset.size, np.int32), np.arange(dataset.size)))
    assert num_shards > 4
    assert sizes == [num_shards] * (2 if more else 1)  # for rates, the kept indexes are used again


def test_rates_of_samples_in_any_order_are_those_of_each(spoken, tmp_path):
    half = [replace(clip, rate_hz=clip.rate_hz // 2) for clip in clips(9)]
    write_dataset(tmp_path, {"a": half, "b": clips(9)}, per_shard=4)
    reader = opened(tmp_path, tmp_path / "cache", split=None, batching="fixed").reading.readers[0]
    samples = np.random.default_rng(1).permutation(18)
    audio, latents = reader.rates(samples)
    assert audio.tolist() == [RATE_HZ // 2 if sample < 9 else RATE_HZ for sample in samples]
    assert latents.tolist() == [0.0] * 18


def test_a_shard_that_changed_after_it_was_counted_is_named_with_the_file_to_remove(spoken, tmp_path, monkeypatch):
    assert opened(spoken, tmp_path).num_batches
    read = StreamReader.lengths
    monkeypatch.setattr(StreamReader, "lengths", lambda self, ids: read(self, ids) + 400)
    (path,) = (tmp_path / "lengths").glob("*.lengths")
    message = (
        rf"/audio/train_0000_00000\d-\w+\.tar: the lengths in its index are not .* removing {re.escape(str(path))}$"
    )
    with pytest.raises(FormatError, match=message):
        ids_of(opened(spoken, tmp_path))


def test_what_a_killed_process_was_writing_is_removed_by_the_next(spoken, tmp_path):
    opened(spoken, tmp_path).epochs.next_run()
    (path,) = (tmp_path / "lengths").glob("*.lengths")
    path.rename(path.with_name(f".{path.name}.of-a-killed-process"))
    other = path.with_name(".other.lengths.of-a-process-that-is-alive")
    other.write_text("half")
    opened(spoken, tmp_path).epochs.next_run()
    assert sorted(found.suffix for found in (tmp_path / "lengths").iterdir() if found != other) == [".lengths", ".lock"]
    assert other.exists()


def test_lengths_of_many_shards_are_those_of_each(spoken):
    reader = opened(spoken, spoken / "cache").reading.readers[0]
    samples = np.random.default_rng(1).permutation(60)
    assert reader.lengths(samples).tolist() == [int(reader.lengths(samples[i : i + 1])[0]) for i in range(60)]
