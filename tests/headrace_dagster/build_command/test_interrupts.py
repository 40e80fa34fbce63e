"""Ctrl-C stops the build even if Python drops the exception of its signal handler."""

import signal
import weakref

import pytest

from headrace_dagster.build_command.interrupts import Interrupts


class _Thing:
    """An object for weak references."""


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_interrupts_at_once():
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_callback_swallowed_is_raised_before_the_next_run():
    with Interrupts() as interrupts:
        thing = _Thing()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing
        assert reference() is None
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_without_ctrl_c_nothing_is_raised():
    with Interrupts() as interrupts:
        interrupts.check()


def test_an_ignored_ctrl_c_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)
