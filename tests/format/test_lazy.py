"""Values that are computed on first use."""

import threading

from headrace.format.lazy import cached_property


class Slow:
    """An object whose lazy value waits for an event."""

    def __init__(self):
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.num_computed = 0

    @cached_property
    def value(self):
        """The lazy value."""
        self.has_begun.set()
        self.may_end.wait(60)
        self.num_computed += 1
        return 42


def test_a_lazy_value_is_computed_once():
    slow = Slow()
    slow.may_end.set()
    assert (slow.value, slow.value, slow.num_computed) == (42, 42, 1)
    assert Slow.value.__doc__ == "The lazy value."


def test_lazy_values_of_two_objects_do_not_wait_for_each_other():
    slow, quick = Slow(), Slow()
    quick.may_end.set()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    slow.has_begun.wait(60)
    assert quick.value == 42
    assert slow.num_computed == 0
    slow.may_end.set()
    thread.join()
