import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.ordered import Backlog, WeightLimit, map_in_order


def test_results_are_in_the_order_of_the_tasks():
    first = threading.Event()

    def slow_first(task):
        if task == 0:
            first.wait(60)
        elif task == 3:
            first.set()
        return task * 10

    with ThreadPoolExecutor(4) as pool:
        assert list(map_in_order(pool, slow_first, range(20), window=8)) == [task * 10 for task in range(20)]


def test_at_most_a_window_of_tasks_is_running_or_waiting():
    begun = []
    with ThreadPoolExecutor(4) as pool:
        results = map_in_order(pool, begun.append, iter(range(1000)), window=5)
        for taken in range(1, 30):
            next(results)
            assert len(begun) <= taken + 5
        results.close()
    assert len(begun) <= 35


def test_an_exception_is_raised_in_place_of_its_result_and_ends_the_iteration():
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


def test_an_error_of_the_task_iterator_is_raised_after_the_earlier_results():
    def tasks():
        yield from (1, 2, 3)
        raise LookupError("no fourth")

    taken = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(LookupError, match="no fourth"):  # noqa: PT012
        for result in map_in_order(pool, float, tasks(), window=8):
            taken.append(result)  # noqa: PERF402 - results before the error count
    assert taken == [1, 2, 3]


def test_without_tasks_there_are_no_results():
    with ThreadPoolExecutor(1) as pool:
        assert list(map_in_order(pool, str, [], window=3)) == []


def test_heavy_tasks_narrow_the_window_but_one_task_always_runs():
    begun = []
    with ThreadPoolExecutor(4) as pool:
        results = map_in_order(pool, begun.append, iter(range(100)), window=50, limit=WeightLimit(lambda _: 10.0, 30.0))
        for taken in range(1, 30):
            next(results)
            assert len(begun) <= taken + 3
        results.close()
        heavy = map_in_order(pool, str, range(5), window=50, limit=WeightLimit(lambda _: 99.0, 30.0))
        assert list(heavy) == ["0", "1", "2", "3", "4"]


def test_a_backlog_waits_for_the_oldest_tasks_only():
    done = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        backlog = Backlog()
        backlog.add(pool.submit(lambda: "first"))
        backlog.add(pool.submit(done.wait, 60))
        assert list(backlog.take(1)) == ["first"]
        assert list(backlog.take(1)) == []
        done.set()
        assert list(backlog.take(0)) == [True]
