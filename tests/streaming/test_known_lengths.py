"""The census of lengths in the cache folder: made once, shared, made again where it does not fit."""

import threading

import numpy as np
import pytest

from headrace import FrameBudget, StreamingDataset
from headrace.streaming import known_lengths
from headrace.streaming.batches.stream_reader import StreamReader
from tests.streaming.corpus import clips, write_dataset

BUDGET = FrameBudget(60_000, batch_multiple=4)


@pytest.fixture
def asked(monkeypatch):
    """Numbers of samples whose lengths were read from indexes, call by call."""
    counts = []
    read = StreamReader.lengths
    monkeypatch.setattr(StreamReader, "lengths", lambda self, ids: counts.append(len(ids)) or read(self, ids))
    return counts


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_dataset(folder, {"train": clips(60, frames=(100, 3000)), "test": clips(12)}, per_shard=10)
    return folder


def opened(corpus, cache, **more):
    settings = {"split": "train", "batch_size": 8, "shuffle": True, "batching": BUDGET} | more
    return StreamingDataset(remote=f"{corpus}/audio", local=str(cache), **settings)


def ids_of(dataset):
    run = dataset.epochs.next_run()
    return [run.plan(index).rows.sample_ids.tolist() for index in range(len(run))]


def test_lengths_are_counted_once_for_all_processes_epochs_and_seeds(corpus, tmp_path, asked):
    first = opened(corpus, tmp_path)
    num_batches = first.num_batches
    assert num_batches > 2
    assert sum(asked) == 60
    asked.clear()
    for dataset in (first, opened(corpus, tmp_path), opened(corpus, tmp_path, shuffle_seed=3)):
        assert dataset.epochs.next_run().row_after(0) == 0
        state = dataset.state_dict(num_samples=dataset.epochs.next_run().row_after(2))
        dataset.load_state_dict(state)
        assert len(dataset.epochs.next_run()) == num_batches - 2
    assert asked == []
    assert len(list((tmp_path / "lengths").glob("*.lengths"))) == 1


@pytest.mark.parametrize("more", [{"split": "test"}, {"crop_frames": 500}, {"sample_rate": 4000}], ids=str)
def test_other_samples_and_other_lengths_are_counted_apart(corpus, tmp_path, asked, more):
    before = ids_of(opened(corpus, tmp_path))
    asked.clear()
    assert ids_of(opened(corpus, tmp_path, **more)) != before
    assert sum(asked[:1]) == (12 if "split" in more else 60)
    assert len(list((tmp_path / "lengths").glob("*.lengths"))) == 2


@pytest.mark.parametrize("damage", [b"", b"nonsense", None], ids=["empty", "nonsense", "flip"])
def test_a_damaged_file_is_made_again(corpus, tmp_path, asked, damage):
    expected = ids_of(opened(corpus, tmp_path))
    (path,) = (tmp_path / "lengths").glob("*.lengths")
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(bytes(blob) if damage is None else damage)
    asked.clear()
    assert ids_of(opened(corpus, tmp_path)) == expected
    assert asked[0] == 60
    asked.clear()
    opened(corpus, tmp_path).epochs.next_run()
    assert asked == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(corpus, tmp_path, caplog):
    (tmp_path / "lengths").write_text("no folder")
    assert ids_of(opened(corpus, tmp_path)) == ids_of(opened(corpus, tmp_path / "other"))
    assert "counted again in each run" in caplog.text


def test_processes_that_open_together_count_once(corpus, tmp_path, asked):
    datasets = [opened(corpus, tmp_path) for _ in range(4)]
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
def test_lengths_are_counted_in_parts(corpus, tmp_path, asked, monkeypatch, case):
    limit, number, parts = case
    expected = ids_of(opened(corpus, tmp_path / "whole"))
    asked.clear()
    monkeypatch.setattr(known_lengths, limit, number)
    assert ids_of(opened(corpus, tmp_path / "parts")) == expected
    assert asked[: len(parts)] == parts


def test_lengths_of_many_shards_are_those_of_each(corpus):
    reader = opened(corpus, corpus / "cache").reading.readers[0]
    samples = np.random.default_rng(1).permutation(60)
    assert reader.lengths(samples).tolist() == [int(reader.lengths(samples[i : i + 1])[0]) for i in range(60)]
