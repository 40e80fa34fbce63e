"""Shards that are downloaded, evicted and counted on request."""

import pytest

from headrace import StreamingDataset
from headrace.streaming.run.shard_tools import evict, evict_coldest, prepare, taken


def test_a_shard_of_a_store_is_fetched_and_evicted_by_its_number(server, tmp_path):
    dataset = StreamingDataset(remote=f"{server.uri}/audio", local=str(tmp_path), split="test", batch_size=2)
    streams = dataset._streams
    for is_patient in (False, True):
        prepare(streams, 1, is_patient=is_patient)
    (kept,) = (path.name for path in tmp_path.rglob("test_*.tar"))
    assert kept.startswith("test_0000_000001")
    assert evict(streams, 0)  # it was not there
    assert evict(streams, 1)
    assert list(tmp_path.rglob("test_*.tar")) == []


def test_the_coldest_shard_goes_first(server, tmp_path):
    dataset = StreamingDataset(remote=f"{server.uri}/audio", local=str(tmp_path), split="test", batch_size=2)
    prepare(dataset._streams, 1, is_patient=True)
    assert evict_coldest(dataset.reading).startswith("test_0000_000001")
    assert evict_coldest(dataset.reading) is None


def test_local_shards_are_never_evicted(dataset_folder):
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", split="test", batch_size=2)
    assert not evict(dataset._streams, 0)


def test_samples_of_an_epoch_are_counted_by_shard(dataset_folder):
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", split="test", batch_size=2, shuffle=True)
    readers = dataset.reading.readers
    counts, samples = taken(dataset._planner, 0, readers, None)
    assert (counts.tolist(), samples.tolist()) == ([5, 2], list(range(7)))
    assert taken(dataset._planner, 0, readers, 0)[0].tolist() == [5, 2]
    with pytest.raises(IndexError, match="stream 1: there are 1"):
        taken(dataset._planner, 0, readers, 1)
