"""Whether threads should do a thing one after the other, or all at once.

Owns that choice for work that holds the GIL but for short reads. Where the reads come from the page cache, threads only
hand the GIL around, and one alone is faster; where they wait for a disk or a network, several wait at the same time.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

_WAITING_RATIO = 3.0  # of time by the clock to CPU time: more means a disk or a network, not another busy process
_WAITING_SECONDS = 0.002
_TURNS_AT_ONCE = 64


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


class Turns:
    """Lets one thread in at a time, but all of them for a while when the last one alone spent its time waiting."""

    def __init__(self, clocks: Callable[[], tuple[float, float]] = _clocks) -> None:
        """`clocks` gives the time and the calling thread's CPU time, in seconds."""
        self._clocks = clocks
        self._alone = threading.Lock()
        self._num_at_once = 0

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Take a turn."""
        with contextlib.ExitStack() as held:
            held.enter_context(self._alone)
            if self._num_at_once > 0:
                self._num_at_once -= 1
                held.close()
                yield
                return
            start, cpu_start = self._clocks()
            yield
            stop, cpu_stop = self._clocks()
            if stop - start > _WAITING_RATIO * (cpu_stop - cpu_start) + _WAITING_SECONDS:
                self._num_at_once = _TURNS_AT_ONCE
