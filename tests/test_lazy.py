"""Values that are computed when they are first asked for."""

import threading

from headrace.lazy import cached_property


class Slow:
    """Its value comes when it may."""

    def __init__(self):
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.num_computed = 0

    @cached_property
    def value(self):
        """Of all things."""
        self.has_begun.set()
        self.may_end.wait(60)
        self.num_computed += 1
        return 42


def test_it_is_computed_once():
    slow = Slow()
    slow.may_end.set()
    assert (slow.value, slow.value, slow.num_computed) == (42, 42, 1)
    assert Slow.value.__doc__ == "Of all things."


def test_no_object_waits_for_another():
    slow, quick = Slow(), Slow()
    quick.may_end.set()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    slow.has_begun.wait(60)
    assert quick.value == 42
    assert slow.num_computed == 0
    slow.may_end.set()
    thread.join()
