"""Allocates the arrays of batches, and uses their memory again after a batch is dropped.

A batch of audio takes tens of megabytes, and new pages for each batch take the kernel about a tenth of the time that
decoding takes. A buffer returns to the free list when the last array or tensor that refers to it is gone: every view
keeps its `_Lease` alive.
"""

import contextlib
import math
import mmap
from collections import deque
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

_PAGE_BYTES = 1 << 16
_HUGE_PAGE_BYTES = 2 << 20
_SMALLEST_BYTES = 1 << 18  # smaller arrays come from malloc


class Allocator(Protocol):
    """Allocates the arrays of batches."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array with arbitrary content."""


class Arena:
    """Recycles the memory of large arrays inside one process; safe for threads (`Allocator`)."""

    def __init__(self, num_kept: int = 4) -> None:
        """Allocate nothing yet; keep at most `num_kept` free buffers."""
        # A deque without a lock: a finalizer may run at any point, also in code that holds the lock.
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=num_kept)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """See `Allocator.empty`."""
        kind = np.dtype(dtype)
        num_bytes = math.prod(shape) * kind.itemsize
        if num_bytes < _SMALLEST_BYTES:
            return np.empty(shape, kind)
        return np.asarray(_Lease(self._take(num_bytes), self._free, shape, kind))

    def _take(self, num_bytes: int) -> NDArray[np.uint8]:
        for _ in range(len(self._free)):
            try:
                buffer = self._free.pop()  # the one used last, which may still be in a processor's cache
            except IndexError:  # another thread took the last
                break
            if num_bytes <= len(buffer) <= 2 * num_bytes:
                return buffer
            self._free.appendleft(buffer)
        return _aligned(_rounded(num_bytes, _PAGE_BYTES))


class _Lease:
    """A buffer that is in use. It is not an array itself, so numpy makes it the base of all arrays on the buffer."""

    __slots__ = ("__array_interface__", "_buffer", "_free")

    def __init__(
        self, buffer: NDArray[np.uint8], free: deque[NDArray[np.uint8]], shape: tuple[int, ...], kind: np.dtype[Any]
    ) -> None:
        self._buffer, self._free = buffer, free
        place = buffer.__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "data": place, "shape": shape, "typestr": kind.str}

    def __del__(self) -> None:
        """Return the buffer to the free list."""
        self._free.append(self._buffer)


def _aligned(num_bytes: int) -> NDArray[np.uint8]:
    """New memory, aligned to huge pages if it is at least as large as one: then the kernel maps it in few page faults.

    Its last page is a huge page only if at least half of it is used. By default numpy and the kernel always use one,
    and a batch of 28.2 MB takes 29.4 MB. Memory that is never written takes no pages. Raises `MemoryError` like numpy.
    """
    if num_bytes < _HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(num_bytes, np.uint8)
    in_huge_pages = _rounded(num_bytes - _HUGE_PAGE_BYTES // 2, _HUGE_PAGE_BYTES)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        memory = mmap.mmap(-1, max(num_bytes, in_huge_pages) + _HUGE_PAGE_BYTES, flags=private)
    except OSError as error:  # an OSError would be taken for a shard that cannot be read
        raise MemoryError(f"no memory for {num_bytes / 1e6:,.0f} MB of a batch; make batches smaller") from error
    place = np.frombuffer(memory, np.uint8)
    start = -place.__array_interface__["data"][0] % _HUGE_PAGE_BYTES
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory.madvise(mmap.MADV_HUGEPAGE, start, in_huge_pages)
    return place[start : start + num_bytes]


def _rounded(num_bytes: int, unit: int) -> int:
    return -(-num_bytes // unit) * unit
