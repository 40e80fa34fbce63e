"""Ctrl-C that is not lost.

Python drops what a handler raises while a destructor or the callback of a weak reference runs, and a build would go on
for hours. Here it is remembered, and raised again before the next run.
"""

import signal
from types import FrameType
from typing import Self


class Interrupts:
    """Remembers Ctrl-C, within a `with` block; where somebody else handles it already, it is left to them."""

    def __init__(self) -> None:
        self._has_come = False
        self._is_ours = False

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it as it was."""
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C has come, also where it was raised before and got lost."""
        if self._has_come:
            raise KeyboardInterrupt

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._has_come = True
        raise KeyboardInterrupt
