"""Remembers Ctrl-C, and raises `KeyboardInterrupt` again before the next run.

Python drops an exception that a signal handler raises inside a destructor or the callback of a weak reference. Without
this module, such a Ctrl-C would be lost and the build would go on.
"""

import signal
from types import FrameType
from typing import Self


class Interrupts:
    """Remembers Ctrl-C within a `with` block. Does nothing if SIGINT already has another handler."""

    def __init__(self) -> None:
        self._was_pressed = False
        self._is_ours = False

    def __enter__(self) -> Self:
        """Install the handler of SIGINT."""
        self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore Python's own handler."""
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed, even if that was raised before and lost."""
        if self._was_pressed:
            raise KeyboardInterrupt

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._was_pressed = True
        raise KeyboardInterrupt
