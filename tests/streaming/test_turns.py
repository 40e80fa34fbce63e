"""Threads take turns while nothing waits, and none while something does."""

import contextlib
import threading

from headrace.streaming.turns import Turns


class Clocks:
    """The time by the clock and the CPU time, as a test sets them."""

    def __init__(self):
        self.now = (0.0, 0.0)

    def spend(self, seconds, cpu_seconds):
        self.now = (self.now[0] + seconds, self.now[1] + cpu_seconds)

    def __call__(self):
        return self.now


def take(turns, clocks, seconds, cpu_seconds):
    with turns.turn():
        clocks.spend(seconds, cpu_seconds)


def lets_a_second_thread_in(turns, patience_seconds):
    """Whether another thread gets a turn while this one holds its own."""
    entered = threading.Event()

    def enter():
        with turns.turn():
            entered.set()

    thread = threading.Thread(target=enter)
    with turns.turn():
        thread.start()
        found = entered.wait(patience_seconds)
    thread.join()
    return found


def test_work_that_waits_for_nothing_is_done_one_after_the_other():
    clocks = Clocks()
    turns = Turns(clocks)
    take(turns, clocks, seconds=0.004, cpu_seconds=0.002)
    assert not lets_a_second_thread_in(turns, patience_seconds=0.05)


def test_work_that_waits_is_done_by_all_at_once_for_a_while():
    clocks = Clocks()
    turns = Turns(clocks)
    take(turns, clocks, seconds=0.1, cpu_seconds=0.001)
    assert lets_a_second_thread_in(turns, patience_seconds=20)
    for _ in range(62):
        take(turns, clocks, seconds=0.0, cpu_seconds=0.0)
    assert not lets_a_second_thread_in(turns, patience_seconds=0.05)


def test_an_error_ends_the_turn():
    turns = Turns()
    with contextlib.suppress(ValueError), turns.turn():
        raise ValueError
    with turns.turn():
        pass
