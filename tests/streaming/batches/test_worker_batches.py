"""`prefetch_factor` says how many batches are made before their consumer asks for them, with and without workers."""

import threading
import time

import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.streaming.batches.worker_batches import WorkerBatches
from tests.support.streaming.corpus import clips, write_dataset

BATCH = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ahead")
    write_dataset(folder, {"train": clips(20 * BATCH)})
    return folder


class Counter:
    """A transform that counts the samples that were made."""

    def __init__(self):
        self.count, self._lock = 0, threading.Lock()

    def __call__(self, sample):
        with self._lock:
            self.count += 1
        return sample

    def reaches(self, count):
        deadline = time.monotonic() + 60
        while self.count < count and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.count == count


@pytest.mark.parametrize(("asked", "ahead"), [(1, 1), (5, 5), (None, 2)])
def test_threads_make_as_many_batches_ahead_as_are_asked_for(folder, asked, ahead):
    """One that is handed over, one that is worked on, and those ahead."""
    counter = Counter()
    dataset = StreamingDataset(remote=f"{folder}/audio", batch_size=BATCH, transform=counter)
    batches = iter(StreamingDataLoader(dataset, num_threads=1, prefetch_factor=asked))
    for taken in (1, 2, 3):
        next(batches)
        assert counter.reaches(BATCH * (taken + ahead + 1))
    batches.close()  # waits for the threads
    assert counter.count == BATCH * (3 + ahead + 1)


@pytest.mark.parametrize(("asked", "ahead"), [(1, 1), (5, 5), (None, 2)])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_each_worker_gets_as_many_batches_ahead_as_requested(folder, asked, ahead, num_workers, monkeypatch):
    sent, order_of = [], WorkerBatches._order
    monkeypatch.setattr(WorkerBatches, "_order", lambda self, *order: (sent.append(order), order_of(self, *order)))
    dataset = StreamingDataset(remote=f"{folder}/audio", batch_size=BATCH)
    batches = iter(StreamingDataLoader(dataset, num_workers=num_workers, prefetch_factor=asked))
    for taken in range(3):
        next(batches)
        assert len(sent) == taken + ahead * num_workers
    batches.close()


@pytest.mark.parametrize(("asked", "ahead"), [(7, 7), (None, 2)])
def test_the_plain_pipeline_hands_it_to_torch(folder, asked, ahead):
    loader = webdataset_loader(f"{folder}/audio", num_workers=1, prefetch_factor=asked)
    assert loader._loader.prefetch_factor == ahead
