"""How threads share out the making of batches."""

import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from headrace.streaming.batches.threads import ThreadedBatches
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import Rows
from headrace.streaming.parallel import WorkThreads


def plans(count):
    """Plans of batches of one row, whose sample is the batch's number."""
    for number in range(count):
        yield BatchPlan(0, Rows(np.zeros(1, np.int32), np.array([number])), np.array([number]))


def number_of(plan):
    return int(plan.rows.sample_ids[0])


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that is its number."""

    number: int
    is_copied: ClassVar[bool] = True

    def __len__(self):
        return 1

    def fill(self, start, stop):
        pass

    def finish(self):
        return self.number


class Assembler:
    """Opens batches as a function of their number says, one by one, or else together."""

    def __init__(self, opening, together=lambda numbers: False):
        self.opening, self.together = opening, together

    def prepare(self, plan):
        self.opening(number_of(plan))
        return Prepared(number_of(plan))

    def prepare_copied(self, plans):
        if not self.together([number_of(plan) for plan in plans]):
            return None
        return [Prepared(number_of(plan)) for plan in plans]


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


@pytest.mark.parametrize("is_together", [True, False])
def test_an_error_of_the_plan_comes_in_its_batchs_place(is_together):
    def some_plans():
        yield from plans(11)
        raise ValueError("no such epoch")

    assembler = Assembler(lambda _: None, lambda _: is_together)
    batches = ThreadedBatches(assembler, num_threads=2, depth=3, is_local=True)
    made = batches.run(some_plans())
    assert [next(made) for _ in range(11)] == list(range(11))
    with pytest.raises(ValueError, match="no such epoch"):
        next(made)
    batches.close()


def test_batches_are_opened_together_once_the_first_are_there():
    alone, together = [], []
    assembler = Assembler(alone.append, lambda numbers: together.append(numbers) or True)
    batches = ThreadedBatches(assembler, num_threads=2, depth=3, is_local=True)
    assert list(batches.run(plans(300))) == list(range(300))
    batches.close()
    assert alone == [0, 1]
    assert [number for group in together for number in group] == list(range(2, 300))
    assert [len(group) for group in together] == [2, 4, 8, 16, 32, 64, 128, 44]


def test_what_cannot_be_opened_together_is_opened_alone_where_its_error_belongs():
    def opening(number):
        if number == 5:
            raise ValueError("no such shard")

    def together(numbers):
        if 5 in numbers:
            raise ValueError("no such shard")
        return True

    batches = ThreadedBatches(Assembler(opening, together), num_threads=2, depth=3, is_local=True)
    made = batches.run(plans(9))
    assert [next(made) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="no such shard"):
        next(made)
    batches.close()


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


def test_batches_of_stores_are_opened_side_by_side():
    together = threading.Barrier(3, timeout=60)  # nobody passes it alone
    batches = ThreadedBatches(Assembler(lambda _: together.wait()), num_threads=1, depth=3, is_local=False)
    assert list(batches.run(plans(6))) == list(range(6))
    batches.close()


@pytest.mark.parametrize(
    ("is_copied", "is_local", "count"),
    [(True, True, 4), (False, True, 3), (True, False, 3)],
    ids=["a thread each", "shared out", "of a store"],
)
def test_so_many_batches_are_under_way_besides_the_one_that_was_taken(monkeypatch, is_copied, is_local, count):
    monkeypatch.setattr(Prepared, "is_copied", is_copied)
    opened, is_one_more = [], threading.Semaphore(0)

    def opening(number):
        opened.append(number)
        is_one_more.release()

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=3, is_local=is_local)
    assert next(batches.run(plans(20))) == 0
    assert all(is_one_more.acquire(timeout=60) for _ in range(1 + count))
    batches.close()
    assert sorted(opened) == list(range(1 + count))


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
