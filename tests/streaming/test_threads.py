"""How threads share out the making of batches."""

import threading
import time

import pytest

from headrace.streaming.threads import ThreadedBatches


class Prepared:
    """A batch that is merely copied."""

    is_light = True

    def __len__(self):
        return 1


class Assembler:
    """Opens batches as a function of their number says."""

    def __init__(self, opening):
        self.opening = opening
        self.inside = self.most_inside = 0

    def prepare(self, number):
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.opening(number)
        self.inside -= 1
        return Prepared()

    def fill(self, prepared, start, stop):
        pass

    def finish(self, prepared):
        return "batch"


def run(opening, num_batches):
    assembler = Assembler(opening)
    batches = ThreadedBatches(assembler, num_threads=2, depth=3)
    try:
        return list(batches.run(iter(range(num_batches)))), assembler
    finally:
        batches.close()


def busy(number):
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        sum(range(1000))


def test_batches_that_wait_for_nothing_are_made_one_at_a_time():
    made, assembler = run(busy, 20)
    assert made == ["batch"] * 20
    assert assembler.most_inside == 1


def test_batches_that_wait_for_a_disk_are_opened_together():
    together = threading.Barrier(2)
    first = iter([True])

    def opening(number):
        if next(first, False):
            time.sleep(0.05)  # a cold disk: from here on several are opened at once
        else:
            together.wait(20)

    made, _ = run(opening, 9)
    assert made == ["batch"] * 9


def test_an_error_comes_in_its_batchs_place_and_the_others_are_still_made():
    def opening(number):
        if number == 2:
            raise ValueError("no such shard")

    batches = ThreadedBatches(Assembler(opening), num_threads=2, depth=3)
    made = batches.run(iter(range(4)))
    assert [next(made), next(made)] == ["batch", "batch"]
    with pytest.raises(ValueError, match="no such shard"):
        next(made)
    batches.close()
