"""The check that the tests of assets make of all work finds what no cluster can be sent."""

import threading
from functools import partial

import pytest

from tests.support.sent_work import carried, check_sent


def work_with(value):
    def inner():
        return value

    def work():
        return inner

    inner.__module__ = work.__module__ = "headrace"  # those of tests stay here
    return work


@pytest.mark.parametrize(
    "form", [work_with, lambda value: partial(print, value), lambda value: partial(print, x=value)]
)
def test_what_cannot_be_pickled_is_found_however_it_is_carried(form):
    assert 7 in carried(form(7))
    check_sent(form(7))
    with pytest.raises(TypeError, match="cannot pickle"):
        check_sent(form(threading.Lock()))


def test_what_a_test_has_put_in_the_place_of_a_function_stays_here():
    lock = threading.Lock()
    check_sent(partial(print, lambda: lock))
