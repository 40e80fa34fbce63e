"""How threads share out the making of batches."""

import threading

import pytest

from headrace.streaming.parallel import WorkThreads
from headrace.streaming.threads import ThreadedBatches


class Prepared:
    """A batch that is merely copied."""

    is_copied = True

    def __len__(self):
        return 1


class Assembler:
    """Opens batches as a function of their number says."""

    def __init__(self, opening):
        self.opening = opening

    def prepare(self, number):
        self.opening(number)
        return Prepared()

    def fill(self, prepared, start, stop):
        pass

    def finish(self, prepared):
        return "batch"


@pytest.mark.parametrize("is_local", [True, False])
def test_an_error_comes_in_its_batchs_place(is_local):
    def opening(number):
        if number == 2:
            raise ValueError("no such shard")

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=3, is_local=is_local)
    made = batches.run(iter(range(4)))
    assert [next(made), next(made)] == ["batch", "batch"]
    with pytest.raises(ValueError, match="no such shard"):
        next(made)
    batches.close()


def test_an_error_of_the_plan_comes_in_its_batchs_place():
    def plans():
        yield from range(3)
        raise ValueError("no such epoch")

    batches = ThreadedBatches(Assembler(lambda _: None), num_threads=2, depth=3, is_local=True)
    made = batches.run(plans())
    assert [next(made) for _ in range(3)] == ["batch"] * 3
    with pytest.raises(ValueError, match="no such epoch"):
        next(made)
    batches.close()


def test_local_batches_are_opened_in_order_and_one_at_a_time():
    opened, alone = [], threading.Lock()

    def opening(number):
        assert alone.acquire(blocking=False)
        opened.append(number)
        alone.release()

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=5, is_local=True)
    assert list(batches.run(iter(range(200)))) == ["batch"] * 200
    assert opened == list(range(200))
    batches.close()


def test_batches_of_stores_are_opened_side_by_side():
    together = threading.Barrier(3, timeout=20)  # nobody passes it alone
    batches = ThreadedBatches(Assembler(lambda _: together.wait()), num_threads=1, depth=3, is_local=False)
    assert list(batches.run(iter(range(6)))) == ["batch"] * 6
    batches.close()


def test_tasks_of_lower_rank_go_first():
    threads, done = WorkThreads(1, "test"), []
    may_begin, is_done = threading.Event(), threading.Event()
    threads.submit(lambda: may_begin.wait(20))
    for number, rank in enumerate([7, 2, 7, 0, 2]):
        threads.submit(lambda entry=(rank, number): done.append(entry), rank)
    threads.submit(is_done.set, 9)
    may_begin.set()
    assert is_done.wait(20)
    assert done == [(0, 3), (2, 1), (2, 4), (7, 0), (7, 2)]
    threads.close()
