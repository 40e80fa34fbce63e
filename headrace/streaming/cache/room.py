"""Room below the limit of a cache folder that a process finds once for many small files, and when it is gone.

To measure a folder takes half a second if it has 40,000 files. So a process takes a small part of what is free for the
next files, and measures again when that is used up. Shards take the rest without asking anybody: a shard that leaves
less than half of the limit free changes the time of the folder's lock file, and then no process relies on the room that
it found before. As long as ten processes share the folder, their parts together are less than that half. All functions
are called under the lock of the folder.
"""

import contextlib
import os
import time
from collections.abc import Callable

_ASKED_AT_ONCE = 64  # times that a process keeps ranges before it measures the folder again
_SHARE = 32  # part of the free room that its ranges take until then
_FULL_SHARE = 2  # with less than this part of the limit free, room that processes found before is gone
_STEP_NS = 2_000_000_000  # no file system has coarser times


def filled(folder: int) -> int:
    """A number that is another one after a shard has filled the folder whose open lock file this is."""
    return os.fstat(folder).st_mtime_ns


def note_use(folder: int, usage: int, limit: int) -> None:
    """Change the number of `filled` if less than half of the limit is free."""
    if limit - usage < limit // _FULL_SHARE:
        now = max(time.time_ns(), filled(folder) + _STEP_NS)
        with contextlib.suppress(PermissionError):  # of another user
            os.utime(folder, ns=(now, now))


class RoomForRanges:
    """Room for the ranges of one process. The folder is not measured each time, also while it is full."""

    def __init__(self) -> None:
        self._num_bytes = self._num_asked = self._filled = 0

    def takes(self, num_bytes: int, filled: int, free: Callable[[], int]) -> bool:
        """Whether there is room for this many bytes, which then count.

        Args:
            num_bytes: bytes of ranges.
            filled: see the function of this name.
            free: measures how many bytes have room.
        """
        if self._num_asked % _ASKED_AT_ONCE == 0 or filled != self._filled:
            rest, self._filled, self._num_asked = free() - num_bytes, filled, 0
            self._num_bytes = num_bytes + rest // _SHARE if rest >= 0 else 0
        self._num_asked += 1
        has_room = num_bytes <= self._num_bytes
        self._num_bytes -= num_bytes if has_room else 0
        return has_room
