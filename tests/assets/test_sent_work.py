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

    return work


@pytest.mark.parametrize(
    "form", [work_with, lambda value: partial(print, value), lambda value: partial(print, x=value)]
)
def test_what_cannot_be_pickled_is_found_however_it_is_carried(form):
    assert 7 in carried(form(7))
    check_sent(form(7))
    with pytest.raises(TypeError, match="cannot pickle"):
        check_sent(form(threading.Lock()))
