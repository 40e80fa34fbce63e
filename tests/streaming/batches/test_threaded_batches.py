"""Threads share the making of batches: order, errors, and batches that are dropped."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from headrace.streaming.batches.threaded_batches import ThreadedBatches
from headrace.streaming.concurrency.lookahead import PendingResult
from headrace.streaming.concurrency.parallel import WorkThreads
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import Rows
from tests.support.dropped_errors import alive_after


def plans(count):
    """Plans of batches of one row, whose sample is the batch's number."""
    for number in range(count):
        yield BatchPlan(0, Rows(np.zeros(1, np.int32), np.array([number])), np.array([number]), patient=True)


def number_of(plan):
    return int(plan.rows.sample_ids[0])


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that is its number."""

    number: int
    is_filled_whole: ClassVar[bool] = True

    def __len__(self):
        return 1

    def fill(self, start, stop):
        pass

    def finish(self):
        return self.number


@dataclass(frozen=True, slots=True)
class TwoRows(OpenBatch):
    """A batch of two rows, which threads fill apart by a function of the row."""

    fill_row: Callable[[int], None]
    is_filled_whole: ClassVar[bool] = False

    def __len__(self):
        return 2

    def fill(self, start, stop):
        assert stop == start + 1
        self.fill_row(start)


class Assembler:
    """Opens batches as a function of their number says."""

    def __init__(self, opening):
        self.opening = opening

    def open(self, plan):
        self.opening(number_of(plan))
        return OpenBatch(number_of(plan))


@pytest.mark.parametrize("is_local", [True, False])
def test_an_error_comes_in_its_batchs_place(is_local):
    def opening(number):
        if number == 2:
            raise ValueError("no such shard")

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=3, is_local=is_local)
    made = batches.run(plans(4))
    assert [next(made), next(made)] == [0, 1]
    with pytest.raises(ValueError, match="no such shard"):
        next(made)
    batches.close()


@pytest.mark.parametrize("is_local", [True, False])
def test_an_error_of_the_plan_comes_in_its_batchs_place(is_local):
    def some_plans():
        yield from plans(11)
        raise ValueError("no such epoch")

    batches = ThreadedBatches(Assembler(lambda _: None), num_threads=2, depth=3, is_local=is_local)
    made = batches.run(some_plans())
    assert [next(made) for _ in range(11)] == list(range(11))
    with pytest.raises(ValueError, match="no such epoch"):
        next(made)
    batches.close()


def test_batches_after_one_that_could_not_be_opened_are_not_lost():
    def opening(number):
        if number == 2:
            raise ValueError("no such shard")

    batches = ThreadedBatches(Assembler(opening), num_threads=1, depth=3, is_local=True)
    ahead = []
    made = batches.run(plan for plan in plans(9) if not ahead.append(number_of(plan)))
    assert [next(made), next(made)] == [0, 1]
    with pytest.raises(ValueError, match="no such shard"):
        next(made)
    batches.close()
    assert ahead[:3] == [0, 1, 2]


def test_the_error_of_a_batch_is_that_of_its_first_bad_sample_whichever_thread_found_its_own_first():
    second_failed = threading.Event()

    def fill_row(row):
        if row == 0:
            assert second_failed.wait(60)
            raise ValueError("the first sample")
        second_failed.set()
        raise ValueError("the second sample")

    class BadAssembler(Assembler):
        def open(self, plan):
            return TwoRows(number_of(plan), fill_row)

    batches = ThreadedBatches(BadAssembler(None), num_threads=2, depth=1, is_local=True)
    with pytest.raises(ValueError, match="the first sample"):
        next(batches.run(plans(1)))
    batches.close()


def test_an_error_of_a_batch_that_is_dropped_before_its_other_part_begins_is_freed():
    """It may hold open files."""
    may_end = threading.Event()

    def use(fail):
        def fill_row(row):
            assert row == 0
            batches.close()
            fail()

        batches = ThreadedBatches(Assembler(None), num_threads=2, depth=1, is_local=True)
        batches._decoders.submit(lambda: may_end.wait(60))  # the other thread is busy
        decoders = batches._decoders._threads
        batches._fill(TwoRows(0, fill_row), PendingResult(0))
        while not batches._is_closed:
            time.sleep(0.001)
        may_end.set()
        for thread in decoders:
            thread.join(60)

    assert alive_after(ValueError, use) == (1, 0)


def test_local_batches_are_opened_in_order_and_one_at_a_time():
    opened, alone = [], threading.Lock()

    def opening(number):
        assert alone.acquire(blocking=False)
        opened.append(number)
        alone.release()

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=5, is_local=True)
    assert list(batches.run(plans(200))) == list(range(200))
    assert opened == list(range(200))
    batches.close()


def test_batches_of_stores_are_opened_side_by_side_after_the_first():
    together = threading.Barrier(3, timeout=60)  # nobody passes it alone
    opening = Assembler(lambda number: number and together.wait())
    batches = ThreadedBatches(opening, num_threads=1, depth=3, is_local=False)
    assert list(batches.run(plans(7))) == list(range(7))
    batches.close()


@pytest.mark.parametrize(
    ("is_filled_whole", "is_local"),
    [(True, True), (False, True), (True, False)],
    ids=["a thread each", "shared out", "of a store"],
)
def test_as_many_batches_are_under_way_as_asked_for_besides_the_one_that_was_taken(
    monkeypatch, is_filled_whole, is_local
):
    monkeypatch.setattr(OpenBatch, "is_filled_whole", is_filled_whole)
    opened, is_one_more = [], threading.Semaphore(0)

    def opening(number):
        opened.append(number)
        is_one_more.release()

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=3, is_local=is_local)
    assert next(batches.run(plans(20))) == 0
    assert all(is_one_more.acquire(timeout=60) for _ in range(1 + 3))
    batches.close()
    assert sorted(opened) == list(range(1 + 3))


def test_tasks_of_lower_rank_go_first():
    threads, done = WorkThreads(1, "test"), []
    may_begin, is_done = threading.Event(), threading.Event()
    threads.submit(lambda: may_begin.wait(60))
    for number, rank in enumerate([7, 2, 7, 0, 2]):
        threads.submit(lambda entry=(rank, number): done.append(entry), rank)
    threads.submit(is_done.set, 9)
    may_begin.set()
    assert is_done.wait(60)
    assert done == [(0, 3), (2, 1), (2, 4), (7, 0), (7, 2)]
    threads.close()
