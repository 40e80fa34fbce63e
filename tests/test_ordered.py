import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.ordered import Budget, map_in_order


def test_results_come_in_the_order_of_the_tasks():
    first = threading.Event()

    def slow_first(task):
        if task == 0:
            first.wait(5)
        elif task == 3:
            first.set()
        return task * 10

    with ThreadPoolExecutor(4) as pool:
        assert list(map_in_order(pool, slow_first, range(20), window=8)) == [task * 10 for task in range(20)]


def test_no_more_than_the_window_is_under_way_or_waiting():
    begun = []
    with ThreadPoolExecutor(4) as pool:
        results = map_in_order(pool, begun.append, iter(range(1000)), window=5)
        for taken in range(1, 30):
            next(results)
            assert len(begun) <= taken + 5
        results.close()
    assert len(begun) <= 35


def test_an_exception_is_raised_where_its_result_would_have_come_and_ends_it():
    begun = []

    def fail_at_three(task):
        begun.append(task)
        if task == 3:
            raise ValueError("three")
        return task

    with ThreadPoolExecutor(2) as pool:
        results = map_in_order(pool, fail_at_three, range(1000), window=4)
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(results)
    assert len(begun) < 20


def test_a_fault_of_the_tasks_themselves_comes_after_the_results_before_it():
    def tasks():
        yield from (1, 2, 3)
        raise LookupError("no fourth")

    taken = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(LookupError, match="no fourth"):  # noqa: PT012
        for result in map_in_order(pool, float, tasks(), window=8):
            taken.append(result)  # noqa: PERF402 - what arrived before the fault counts
    assert taken == [1, 2, 3]


def test_no_tasks_give_no_results():
    with ThreadPoolExecutor(1) as pool:
        assert list(map_in_order(pool, str, [], window=3)) == []


def test_heavy_tasks_narrow_the_window_but_one_always_goes():
    begun = []
    with ThreadPoolExecutor(4) as pool:
        results = map_in_order(pool, begun.append, iter(range(100)), window=50, budget=Budget(lambda _: 10.0, 30.0))
        for taken in range(1, 30):
            next(results)
            assert len(begun) <= taken + 3
        results.close()
        heavy = map_in_order(pool, str, range(5), window=50, budget=Budget(lambda _: 99.0, 30.0))
        assert list(heavy) == ["0", "1", "2", "3", "4"]
