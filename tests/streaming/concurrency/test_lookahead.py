"""Results of items that are worked on ahead come in order, a bounded number at a time."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.concurrency.lookahead import LookAhead, PendingResult, begun_ahead
from headrace.streaming.concurrency.parallel import WorkThreads


@given(
    outcomes=st.lists(st.booleans(), max_size=30),
    num_threads=st.integers(1, 4),
    depth=st.integers(1, 5),
    items_fail=st.booleans(),
)
def test_every_result_and_every_error_comes_in_the_place_of_its_item(outcomes, num_threads, depth, items_fail):
    def items():
        yield from enumerate(outcomes)
        if items_fail:
            raise OSError("no more items")

    def work(item, pending):
        number, is_error = item
        pending.end(ValueError(number) if is_error else number)

    threads = WorkThreads(num_threads, "test")
    ahead = LookAhead(items(), work, threads.submit, depth)
    results = ahead.results()
    for number, is_error in enumerate(outcomes):
        if is_error:
            with pytest.raises(ValueError, match=str(number)):
                next(results)
            break
        assert next(results) == number
    else:
        with pytest.raises(OSError if items_fail else StopIteration):
            next(results)
    threads.close()
    ahead.close()


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_first_item_is_alone_where_asked_for(depth):
    begun, submitted = [], []

    def work(item, pending):
        begun.append(item)
        pending.end(item)

    def submit(task):
        submitted.append(len(begun))
        task()

    ahead = LookAhead(iter(range(100)), work, submit, depth, depth_at_start=1)
    results = ahead.results()
    assert next(results) == 0
    assert submitted == [0, *range(1, 1 + depth)]
    assert [next(results), next(results)] == [1, 2]
    assert begun == list(range(3 + depth))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_no_more_items_are_begun_than_asked_for(depth):
    begun, one_more = [], threading.Semaphore(0)

    def work(item, pending):
        begun.append(item)
        pending.end(item)
        one_more.release()

    threads = WorkThreads(1, "test")
    ahead = LookAhead(iter(range(100)), work, threads.submit, depth)
    results = ahead.results()
    for taken in range(3):
        assert next(results) == taken
    for _ in range(3 + depth):
        assert one_more.acquire(timeout=60)
    threads.close()
    assert begun == list(range(3 + depth))


def test_an_error_of_the_work_itself_is_raised():
    def work(item, pending):
        raise ValueError(f"item {item}")

    threads = WorkThreads(1, "test")
    results = LookAhead(iter("ab"), work, threads.submit, 1).results()
    with pytest.raises(ValueError, match="item a"):
        next(results)
    threads.close()


def test_nothing_is_begun_and_nothing_kept_after_the_end():
    threads = WorkThreads(1, "test")
    taken = []
    ahead = LookAhead((taken.append(n) or n for n in range(9)), lambda n, pending: pending.end(n), threads.submit, 3)
    results = ahead.results()
    next(results)
    threads.close()
    ahead.close()
    num_taken = len(taken)
    ahead._begin_next()
    assert len(taken) == num_taken


def test_a_result_counts_once():
    pending = PendingResult(0)
    pending.end(1)
    pending.end(2)
    assert pending.is_over
    assert pending.result() == 1
    dropped = PendingResult(1)
    dropped.drop()
    dropped.end(3)
    assert dropped.is_over


@given(count=st.integers(0, 12), depth=st.integers(1, 5))
def test_what_the_consumer_begins_comes_in_order_and_that_many_are_begun(count, depth):
    begun = []

    def begin(item):
        begun.append(item)
        return lambda: item

    for taken, result in enumerate(begun_ahead(iter(range(count)), begin, depth)):
        assert result == taken
        assert len(begun) == min(count, taken + depth)
    assert begun == list(range(count))
