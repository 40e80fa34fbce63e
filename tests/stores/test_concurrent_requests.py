"""Requests at the same time: a bounded number of threads, results in order, and the first error."""

import threading

import pytest

from headrace.stores.concurrent_requests import map_on_threads


def test_many_waits_take_a_bounded_number_of_threads():
    threads = map_on_threads(lambda _: threading.get_ident(), range(500), "many")
    assert len(threads) == 500
    assert len(set(threads)) <= 32


def test_results_come_in_the_order_of_their_items():
    assert map_on_threads(lambda item: item * 2, range(100), "doubled") == [2 * item for item in range(100)]


def test_the_first_item_that_failed_says_why():
    with pytest.raises(ZeroDivisionError):
        map_on_threads(lambda item: 1 / item, [2, 0, 1], "failing")
