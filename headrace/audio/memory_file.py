"""A file in memory for each thread, which is used again: the kernel clears every page of a new one.

This is worth a twentieth of the time of encoding short clips.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator

from headrace.machine import anonymous_file

_KEPT_BYTES = 8 << 20  # kept in memory for each thread


class _MemoryFile:
    """An unnamed file, in memory if the system supports it; closed when it is no longer used."""

    def __init__(self) -> None:
        self.descriptor = anonymous_file("headrace-audio")
        weakref.finalize(self, os.close, self.descriptor).atexit = False


class _OfThread(threading.local):
    """The idle file of the current thread."""

    idle: _MemoryFile | None = None


_of_thread = _OfThread()


@contextlib.contextmanager
def memory_file() -> Iterator[int]:
    """A block with a file's descriptor, at position 0. The file is writable, and may have older content."""
    file, _of_thread.idle = _of_thread.idle or _MemoryFile(), None  # an inner block on this thread has another file
    os.lseek(file.descriptor, 0, os.SEEK_SET)
    try:
        yield file.descriptor
    finally:
        if os.fstat(file.descriptor).st_size > _KEPT_BYTES:
            os.ftruncate(file.descriptor, 0)
        _of_thread.idle = file


def _forget() -> None:
    """In a forked process: the parent uses the same file, so it must not be written to."""
    _of_thread.idle = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
