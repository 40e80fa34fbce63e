"""Ctrl-C reaches the build also where Python drops what its handler raises."""

import signal
import weakref

import pytest

from building.interrupts import Interrupts


class _Thing:
    """Can be referred to weakly."""


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_it_interrupts_at_once():
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_callback_swallows_is_raised_before_the_next_run():
    with Interrupts() as interrupts:
        thing = _Thing()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing
        assert reference() is None
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_without_it_nothing_happens():
    with Interrupts() as interrupts:
        interrupts.check()


def test_where_it_is_ignored_it_stays_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)
