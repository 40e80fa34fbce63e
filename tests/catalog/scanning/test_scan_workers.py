"""Tests of `headrace.catalog.scanning.scan_workers`."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.catalog.scanning.scan_workers import ReadingThreads


def test_threads_read_items_only_a_little_ahead_and_give_results_as_they_come():
    taken, slow = [], threading.Event()

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    def work(number):
        if number == 0:
            slow.wait(60)
        return number

    results = ReadingThreads(2).map(work, items())
    first = [next(results) for _ in range(30)]
    assert 0 not in first
    assert len(taken) <= 30 + 8
    slow.set()
    assert sorted([*first, *results]) == list(range(1000))


def test_an_error_of_a_thread_is_raised_and_drops_what_was_not_started(monkeypatch):
    later, is_dropped = [], threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            is_dropped.set()
            super().shutdown(wait=wait)

    def work(number):
        if number == 3:
            raise ValueError("three")
        if number > 3:
            later.append(number)
            is_dropped.wait(60)

    monkeypatch.setattr("headrace.catalog.scanning.scan_workers.ThreadPoolExecutor", Pool)
    with pytest.raises(ValueError, match="three"):
        list(ReadingThreads(1).map(work, range(1000)))
    assert len(later) <= 1
