"""Many positioned reads of local files in one call.

A batch of latents is a few dozen reads of some hundred kilobytes each. As calls of `preadv` every one of them lets go
of the GIL and asks for it back, which takes about as long as the copy; in one call the copies of one thread and the
Python of another run side by side. The call is Linux's `io_submit` (io_submit(2), <linux/aio_abi.h>), which does
buffered reads before it returns: a `pread` in all but number, so a file that shrinks gives a short read and never a
bus error, which mapped files would.

Owns that call and the contexts it needs. Where the kernel or a sandbox refuses it, the reads are done one by one.
"""

import contextlib
import ctypes
import errno
import os
import platform
import sys
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CALLS = {"x86_64": (206, 208, 209), "aarch64": (0, 4, 2)}  # io_setup, io_getevents, io_submit
_READS_AT_ONCE = 128
READ = np.dtype(
    [
        ("data", "<u8"), ("key", "<u4"), ("rw_flags", "<i4"), ("opcode", "<u2"), ("priority", "<i2"),
        ("descriptor", "<u4"), ("address", "<u8"), ("num_bytes", "<u8"), ("offset", "<i8"), ("reserved", "<u8"),
        ("flags", "<u4"), ("event_descriptor", "<u4"),
    ]
)  # fmt: skip
"""One read: `descriptor`, an open file; `offset`, the first byte in it; `address`, where the bytes go (the caller keeps
that memory alive); `num_bytes`, how many. This is `struct iocb`, and the other fields, zero, say that it is a read."""
_EVENT = np.dtype([("data", "<u8"), ("block", "<u8"), ("result", "<i8"), ("result2", "<i8")])
"""`struct io_event`."""


def read_together(reads: NDArray[Any]) -> bool:
    """Do reads, `READ` (n,) end to end in memory, and say whether all their bytes are there; safe for threads."""
    context = _taken()
    if context is None:
        fields = (reads[name].tolist() for name in ("descriptor", "offset", "address", "num_bytes"))
        return all(_is_read(*read) for read in zip(*fields, strict=True))
    is_whole = context.read(reads)
    _free.append(context)
    return is_whole


def _is_read(descriptor: int, offset: int, address: int, num_bytes: int) -> bool:
    try:
        return os.preadv(descriptor, [(ctypes.c_char * num_bytes).from_address(address)], offset) == num_bytes
    except OSError:
        return False


class _Context:
    """A context of the kernel's, with the memory for questions and answers; for one call at a time."""

    def __init__(self, calls: tuple[int, int, int]) -> None:
        """Raises `OSError` where there is none to be had."""
        setup, getevents, submit = map(ctypes.c_long, calls)
        self._syscall: Any = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._id = ctypes.c_ulong(0)
        if self._syscall(setup, ctypes.c_long(_READS_AT_ONCE), ctypes.byref(self._id)) != 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self._offsets = READ.itemsize * np.arange(_READS_AT_ONCE)
        self._pointers = np.empty_like(self._offsets)
        self._events = np.empty(_READS_AT_ONCE, _EVENT)
        self._pointers_at, self._events_at = ctypes.c_void_p(self._pointers.ctypes.data), self._events.ctypes.data
        self._submit = submit, self._id
        self._getevents = getevents, self._id

    def read(self, reads: NDArray[Any]) -> bool:
        """See `read_together`."""
        address = int(reads.__array_interface__["data"][0])
        num_bytes = 0
        for start in range(0, len(reads), _READS_AT_ONCE):
            count = min(_READS_AT_ONCE, len(reads) - start)
            np.add(self._offsets[:count], address + start * READ.itemsize, out=self._pointers[:count])
            num_bytes += self._read(count)
        return num_bytes == int(reads["num_bytes"].sum())  # no read gives more than it is asked for

    def _read(self, count: int) -> int:
        """Do the first `count` of `pointers`, and give their bytes' number; less than that if one failed."""
        num_begun = self._syscall(*self._submit, ctypes.c_long(count), self._pointers_at)
        return int(self._finished(num_begun)["result"].sum()) if num_begun > 0 else -1

    def _finished(self, count: int) -> NDArray[Any]:
        """The results of reads that were begun; they lie in memory that belongs to callers, so all are awaited."""
        num_found = 0
        while num_found < count:
            left = ctypes.c_long(count - num_found)
            place = ctypes.c_void_p(self._events_at + num_found * _EVENT.itemsize)
            found = self._syscall(*self._getevents, left, left, place, None)
            if found < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), "io_getevents")
            num_found += max(0, found)
        return self._events[:count]


# Contexts are kept for the next call, because the kernel takes 30 ms to end one; it ends them all with the process.
_free: deque[_Context] = deque()
os.register_at_fork(after_in_child=_free.clear)  # they are the parent's


def _taken() -> _Context | None:
    """A context that nobody uses; None where this system has none, or no more of them."""
    with contextlib.suppress(IndexError):
        return _free.popleft()
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" and sys.byteorder == "little" else None
    if calls is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    with contextlib.suppress(OSError):
        return _Context(calls)
    return None
