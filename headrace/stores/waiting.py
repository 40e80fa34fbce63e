"""Waits that end early: as soon as the loader that started the waiting thread is closed.

Each thread may have an event that ends its waits. A thread without one, such as a user's own, waits for the full time,
and signals interrupt it.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

_end: ContextVar[threading.Event | None] = ContextVar("headrace_end_of_waits", default=None)


def current_end() -> threading.Event | None:
    """The event that ends this thread's waits; None if it has no event."""
    return _end.get()


@contextlib.contextmanager
def waits_end_with(event: threading.Event) -> Iterator[None]:
    """A block in which this thread's waits end as soon as `event` is set."""
    token = _end.set(event)
    try:
        yield
    finally:
        _end.reset(token)


def is_over() -> bool:
    """Whether this thread's event is set, so that its result is no longer wanted."""
    event = _end.get()
    return event is not None and event.is_set()


def wait(seconds: float) -> bool:
    """Wait. Returns False if the wait ended early because this thread's result is no longer wanted."""
    event = _end.get()
    if event is None:
        time.sleep(seconds)
        return True
    return not event.wait(seconds)
