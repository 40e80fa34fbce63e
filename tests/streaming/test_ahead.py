"""What comes next in a run is in order and whole, however many batches are opened at a time."""

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.batches.ahead import Ahead
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import Rows


def plan(number, num_rows):
    return BatchPlan(number, Rows(np.zeros(num_rows, np.int32), np.arange(num_rows)), np.arange(num_rows))


def taken(ahead):
    """All that is due, by number."""
    found = []
    while (due := ahead.take()) is not None:
        found.append(due.epoch if isinstance(due, BatchPlan) else due)
        ahead.open_some()
    return found


@given(
    sizes=st.lists(st.integers(1, 9), max_size=60),
    shares=st.lists(st.sampled_from([None, 1, 2, 3, 100]), min_size=1, max_size=5),
    rows_together=st.sampled_from([0, 1, 16, 64]),
    fails=st.booleans(),
)
def test_every_batch_is_due_once_and_in_order(sizes, shares, rows_together, fails):
    error = ValueError("no such epoch")

    def plans():
        yield from (plan(number, num_rows) for number, num_rows in enumerate(sizes))
        if fails:
            raise error

    turns = iter(shares * 100)

    def together(group):
        share = next(turns)
        return None if share is None else [f"opened {plan.epoch}" for plan in group[:share]]

    found = taken(Ahead(plans(), together, rows_together))
    if fails:
        assert found.pop() is error
    assert [int(str(due).removeprefix("opened ")) for due in found] == list(range(len(sizes)))


def test_more_are_opened_while_half_are_left_and_the_others_go_on_with_these():
    groups, may_end = [], threading.Event()

    def together(group):
        groups.append([plan.epoch for plan in group])
        if 8 in groups[-1]:
            assert may_end.wait(60)
        return group

    ahead = Ahead((plan(number, 1) for number in range(16)), together, rows_together=100)
    assert [ahead.take().epoch for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    opener = threading.Thread(target=ahead.open_some)
    opener.start()
    assert [ahead.take().epoch for _ in range(2)] == [6, 7]
    may_end.set()
    opener.join()
    assert groups == [[2, 3], [4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]
    assert [ahead.take().epoch for _ in range(8)] == list(range(8, 16))
    assert ahead.take() is None
