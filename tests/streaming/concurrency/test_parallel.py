"""Threads that nobody has to wait for: their number is bounded, and a system that gives no more of them is no hang."""

import threading
from queue import SimpleQueue

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.stores.concurrent_requests import map_on_threads
from headrace.streaming.concurrency.parallel import WorkThreads


@pytest.fixture
def no_thread(monkeypatch):
    """The system gives none of this name."""
    start = threading.Thread.start

    def refuse(name, after=0):
        given = iter(range(after))

        def started(thread):
            if name in thread.name and next(given, None) is None:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", started)

    return refuse


@pytest.mark.parametrize("after", [0, 2])
def test_without_threads_the_caller_does_the_work(no_thread, after):
    no_thread("alone", after)
    assert map_on_threads(lambda item: item + 1, range(9), "alone") == list(range(1, 10))


def test_tasks_wait_for_the_threads_that_there_are(no_thread):
    no_thread("few", 1)
    done: SimpleQueue[int] = SimpleQueue()
    threads = WorkThreads(4, "few")
    for number in range(8):
        threads.submit(lambda number=number: done.put(number))
    assert sorted(done.get(timeout=60) for _ in range(8)) == list(range(8))
    threads.close()


def test_a_loader_that_gets_no_thread_says_so(no_thread, dataset_folder):
    no_thread("decode")
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batch_size=8)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        list(StreamingDataLoader(dataset))


@pytest.mark.medium
@pytest.mark.parametrize(("batch_size", "prefetch_factor"), [(512, 32), (16_384, 2)])
def test_orders_do_not_wait_for_batches_that_wait_for_their_consumer(dataset_folder, batch_size, prefetch_factor):
    """A pipe holds some hundred kilobytes; orders and batches' metadata can be more, both ways at once."""
    folder = f"{dataset_folder}/latents/crepe"
    size = batch_size * prefetch_factor * 2
    dataset = StreamingDataset(remote=folder, split="train", batch_size=batch_size, epoch_size=size)
    loader = StreamingDataLoader(dataset, num_workers=1, prefetch_factor=prefetch_factor)
    assert sum(len(batch["keys"]) for batch in loader) == size
