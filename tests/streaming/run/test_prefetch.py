"""Downloads ahead of use: the shards that come next, in their order, and not too much planned at once."""

import threading
import time

import numpy as np
import pytest

from headrace import FrameBudget, Stream, StreamingDataset, World
from headrace.streaming.cache.cache import CacheFullError
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.run import epoch_reader
from headrace.streaming.run.epochs import WorkerShare
from headrace.streaming.run.prefetch import _BATCHES_AT_ONCE, Prefetcher

NUM_BATCHES = 1000


class Run:
    """A run whose batch number n needs the sample n alone; it notes what is looked at."""

    def __init__(self):
        self.looked_at = []

    def __len__(self):
        return NUM_BATCHES

    def peek(self, index):
        self.looked_at.append(index)
        return BatchPlan(0, Rows(np.zeros(1, np.int32), np.array([index])), np.array([index]), patient=True)


class Access:
    """A store with a shard for each ten samples; it notes what is fetched."""

    is_named_by_content = True

    def __init__(self, room):
        self.fetched, self.expected, self.grown = [], [], threading.Condition()
        self.let_go_of: list[int] = []
        self.room = room

    def in_place(self, shard):
        return None

    def cache_name(self, shard):
        return f"{shard}.tar"

    def expect(self, shard):
        self.expected.append(shard)

    def let_go(self, shard):
        with self.grown:
            self.let_go_of.append(shard)
            self.room += 1

    def fetch(self, shard, keep):
        with self.grown:
            if not self.room:
                raise CacheFullError("full")
            self.room -= 1
            self.fetched.append(shard)
            self.grown.notify_all()

    def await_number(self, count):
        with self.grown:
            assert self.grown.wait_for(lambda: len(self.fetched) >= count, 60)
        return sorted(self.fetched)


class SlowAccess(Access):
    """One that fetches nothing before it is released."""

    def __init__(self, room):
        super().__init__(room)
        self.begun, self.allowed = [], set()

    def allow(self, *shards):
        with self.grown:
            self.allowed.update(shards)
            self.grown.notify_all()

    def await_begun(self, count):
        with self.grown:
            assert self.grown.wait_for(lambda: len(self.begun) >= count, 60)
        return self.begun

    def fetch(self, shard, keep):
        with self.grown:
            self.begun.append(shard)
            self.grown.notify_all()
            assert self.grown.wait_for(lambda: shard in self.allowed, 60)
        super().fetch(shard, keep)


class FailingRun(Run):
    """A run in which the plans of some batches fail a given number of times."""

    def __init__(self, failures):
        super().__init__()
        self.failures = dict(failures)

    def peek(self, index):
        if self.failures.get(index):
            self.failures[index] -= 1
            raise OSError("the store failed for a moment")
        return super().peek(index)


class Reader:
    def __init__(self, access):
        self.access = access

    def shards_of(self, samples):
        return [(self.access, int(sample) // 10) for sample in samples]

    def shards_with_columns(self, samples):
        return []


@pytest.fixture
def begin():
    """Begins a look-ahead; gives what it looks at and what it fetches."""
    begun = []

    def start(horizon, share=WorkerShare(), run=None, access=None, first=0):  # noqa: B008 - frozen
        run, access = run or Run(), access or Access(NUM_BATCHES)
        begun.append(Prefetcher([Reader(access)], run, share, horizon, first))
        begun[-1].begin()
        return begun[-1], run, access

    yield start
    for prefetcher in begun:
        prefetcher.close()


def look(prefetcher):
    """Wait until it has looked ahead for all that was delivered."""
    is_done = threading.Event()
    prefetcher._planner.submit(is_done.set)
    assert is_done.wait(60)


def await_postponed(prefetcher, count):
    deadline = time.monotonic() + 60
    while len(prefetcher._postponed) != count and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(prefetcher._postponed) == count


def test_a_short_horizon_is_kept_from_the_start(begin):
    prefetcher, run, access = begin(30)
    look(prefetcher)
    assert run.looked_at == list(range(30))
    assert access.await_number(3) == [0, 1, 2]
    prefetcher.delivered(0)
    look(prefetcher)
    assert run.looked_at == list(range(31))
    assert access.await_number(4) == [0, 1, 2, 3]


@pytest.mark.parametrize("begins", [Prefetcher.begin, lambda prefetcher: prefetcher.delivered(0)])
def test_nothing_is_downloaded_beside_the_first_batch_but_everything_is_expected(begins):
    """Its ranges are kept for the downloads, with which it does not share the connection."""
    access = Access(NUM_BATCHES)
    prefetcher = Prefetcher([Reader(access)], Run(), WorkerShare(), 30)
    look(prefetcher)
    assert access.expected == [0, 1, 2]
    assert access.fetched == []
    assert prefetcher._threads._tasks == []
    begins(prefetcher)
    assert access.await_number(3)[:3] == [0, 1, 2]
    prefetcher.close()


def test_a_run_that_goes_on_in_its_midst_is_looked_at_from_there(begin):
    prefetcher, run, access = begin(30, first=40)
    look(prefetcher)
    assert run.looked_at == list(range(40, 70))
    assert access.await_number(3) == [4, 5, 6]


def test_a_long_horizon_is_reached_step_by_step(begin):
    prefetcher, run, access = begin(300)
    look(prefetcher)
    assert run.looked_at == list(range(_BATCHES_AT_ONCE))
    for index in range(4):
        prefetcher.delivered(index)
    look(prefetcher)
    assert run.looked_at == list(range(304))
    assert access.await_number(31) == list(range(31))


def test_a_shard_without_room_is_fetched_after_others_are_released(begin):
    prefetcher, _, access = begin(30, access=SlowAccess(2))
    for shard in (0, 1):  # in turn: the threads are several
        access.allow(shard)
        assert access.await_number(shard + 1) == list(range(shard + 1))
    access.allow(*range(100))
    look(prefetcher)
    for index in range(9):
        prefetcher.delivered(index)
    look(prefetcher)
    await_postponed(prefetcher, 2)
    assert access.let_go_of == []
    prefetcher.delivered(9)
    assert access.await_number(3) == [0, 1, 2]
    assert access.let_go_of == [0]


def test_a_worker_looks_at_its_own_batches(begin):
    prefetcher, run, _ = begin(300, WorkerShare(1, 4))
    look(prefetcher)
    assert run.looked_at == list(range(1, 4 * _BATCHES_AT_ONCE, 4))


@pytest.mark.parametrize("stride", [16, 100])
def test_a_worker_of_many_looks_at_some_of_its_own_batches_however_short_the_horizon(begin, stride):
    """A horizon shorter than a turn of all workers may hold none of this one's."""
    prefetcher, run, _ = begin(8, WorkerShare(3, stride))
    look(prefetcher)
    assert run.looked_at == list(range(3, 8 * stride, stride))
    prefetcher.delivered(3)
    look(prefetcher)
    assert run.looked_at == list(range(3, 8 * stride + 4, stride))


def test_a_shard_that_is_passed_before_its_turn_is_not_downloaded(begin):
    prefetcher, _, access = begin(NUM_BATCHES, access=SlowAccess(NUM_BATCHES))
    access.await_begun(4)  # the downloads at a time
    for index in range(900):
        prefetcher.delivered(index)
    look(prefetcher)
    access.allow(*range(100))
    assert access.await_number(14) == [0, 1, 2, 3, *range(90, 100)]


def test_what_found_no_room_comes_before_what_is_needed_later(begin):
    prefetcher, _, access = begin(70, access=SlowAccess(0))
    assert sorted(access.await_begun(4)) == [0, 1, 2, 3]
    look(prefetcher)
    access.allow(1)
    assert access.await_begun(5)[4] == 4  # 5 and 6 wait for a thread
    await_postponed(prefetcher, 1)
    for index in range(10):
        prefetcher.delivered(index)
    look(prefetcher)  # shard 0 is released, so there is room
    access.allow(2)
    assert access.await_begun(6)[5] == 1
    access.allow(*range(100))


def test_a_batch_that_fails_once_is_looked_at_again(begin):
    prefetcher, run, access = begin(30, run=FailingRun({10: 1}))
    look(prefetcher)
    assert run.looked_at == list(range(10))
    prefetcher.delivered(0)
    look(prefetcher)
    assert run.looked_at == list(range(31))
    assert access.await_number(4) == [0, 1, 2, 3]


def test_batches_that_keep_failing_are_left_to_their_readers(begin):
    prefetcher, run, access = begin(30, run=FailingRun({10: NUM_BATCHES, 11: NUM_BATCHES}))
    look(prefetcher)
    for index in range(2):
        prefetcher.delivered(index)
        look(prefetcher)
    assert run.looked_at == [*range(10), *range(12, 32)]
    assert access.await_number(4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "more",
    [
        {"batch_size": 4},
        {"batching": FrameBudget(10_000)},
        {"streams": {"train": 8, "test": 2}, "batch_size": 2, "batching_method": "per_stream"},
    ],
    ids=["fixed", "frame budget", "per stream"],
)
@pytest.mark.parametrize("world_size", [1, 2])
def test_predownload_is_counted_in_samples_however_large_batches_are(server, tmp_path, monkeypatch, more, world_size):
    monkeypatch.setattr(epoch_reader, "Prefetcher", lambda readers, run, share, horizon, start, uses: horizon)
    uri, more = f"{server.uri}/audio", dict(more)
    if "streams" in more:
        more["streams"] = [Stream(uri, split=name, batch_size=size) for name, size in more["streams"].items()]
    else:
        more |= {"remote": uri, "split": "train"}
    made = StreamingDataset(local=str(tmp_path), predownload=1000, world=World(0, world_size), **more)
    run = made.epochs.next_run()
    num_rows = sum(int((~run.plan(index).rows.is_padding).sum()) for index in range(len(run)))
    assert made.epochs.prefetcher(run) == pytest.approx(1000 * len(run) / num_rows, rel=0.15)
