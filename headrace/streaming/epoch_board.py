"""What a dataset and its copies in the workers of a torch DataLoader tell each other.

torch makes every worker's copy anew in each iteration, and the dataset that it copies never hears that one began:
without more, each iteration would be epoch 0. So the copies write what they begin into memory that they share with the
dataset. Where workers persist, they in turn never hear that the dataset loaded a state; so it posts that there.

Owns that memory. It is an anonymous file, so nothing is left behind whatever dies; each worker writes one word of its
own, and the dataset alone writes what is posted, its number last, so there are no locks and nobody waits.
"""

import mmap
import os
import struct
import weakref
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np

from headrace.machine import anonymous_file

_NUM_WORKERS = 1024
_NUM_BYTES = _NUM_WORKERS * 8
_EPOCH_BITS = 32
_EPOCH_MASK = 2**_EPOCH_BITS - 1
_POSTED = struct.Struct("<qq")  # its number, and its bytes, which follow


class EpochBoard:
    """The epoch that each worker began last, and the iteration in which it did; shared with copies in processes."""

    def __init__(self, descriptor: int | None = None) -> None:
        """A board of its own, or the one behind a file descriptor, which it takes over."""
        self._descriptor = anonymous_file("headrace-epochs") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self._descriptor, _NUM_BYTES + _POSTED.size)
        # The file closes with the board, the memory with its last user. `__del__` would be too late at a process's end.
        weakref.finalize(self, os.close, self._descriptor)
        # A word for each worker: 31 bits of the iteration's number, and epoch + 1 (0: none). One store writes it whole.
        self._words = np.frombuffer(mmap.mmap(self._descriptor, _NUM_BYTES), np.int64)

    def latest(self) -> int | None:
        """The newest epoch that any worker began; None when none did."""
        newest = int((self._words & _EPOCH_MASK).max())
        return newest - 1 if newest else None

    def claim(self, worker: int, iteration: int, epoch: int) -> int:
        """The epoch of a worker in an iteration: that of its fellows, else the one after the latest, at least `epoch`.

        Two fellows that claim at once find the same.

        Args:
            worker: its number in the iteration.
            iteration: what its fellows share and no other iteration has: the seed that torch draws for them all.
            epoch: what follows if none was begun.
        """
        words = self._words.copy()
        fellows = words[words >> _EPOCH_BITS == _tag(iteration)] & _EPOCH_MASK
        if fellows.any():
            found = int(fellows.max()) - 1
        else:
            latest = int((words & _EPOCH_MASK).max()) - 1
            found = max(epoch, latest + 1)
        self.write(worker, iteration, found)
        return found

    def write(self, worker: int, iteration: int, epoch: int) -> None:
        """A worker has begun `epoch`."""
        self._words[worker % _NUM_WORKERS] = _tag(iteration) << _EPOCH_BITS | epoch + 1

    def clear(self) -> None:
        """Forget all: a state was loaded, and its epoch counts from here."""
        self._words[:] = 0

    def post(self, content: bytes) -> int:
        """Tell all copies something, and get the number that it has."""
        number = self._posted()[0] + 1
        os.pwrite(self._descriptor, content, _NUM_BYTES + _POSTED.size)
        os.pwrite(self._descriptor, _POSTED.pack(number, len(content)), _NUM_BYTES)
        return number

    def posted(self, seen: int) -> tuple[int, bytes | None]:
        """The number of what was posted last; and what, unless that is the number that was `seen`."""
        number, num_bytes = self._posted()
        if number == seen:
            return number, None
        content = os.pread(self._descriptor, num_bytes, _NUM_BYTES + _POSTED.size)
        return (number, content) if self._posted() == (number, num_bytes) else self.posted(seen)

    def _posted(self) -> tuple[int, int]:
        number, num_bytes = _POSTED.unpack(os.pread(self._descriptor, _POSTED.size, _NUM_BYTES))
        return number, num_bytes

    def __reduce__(self) -> tuple[Callable[..., "EpochBoard"], tuple[Any, ...]]:
        """The same memory for a process that is being started; a copy of what is in it for everybody else."""
        if get_spawning_popen() is not None:
            return _shared, (reduction.DupFd(self._descriptor),)
        return _copied, (os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0),)


def _tag(iteration: int) -> int:
    return iteration & 0x7FFFFFFF


def _shared(descriptor: Any) -> EpochBoard:  # noqa: ANN401 - multiprocessing's own
    return EpochBoard(descriptor.detach())


def _copied(content: bytes) -> EpochBoard:
    board = EpochBoard()
    os.pwrite(board._descriptor, content, 0)  # noqa: SLF001 - its own module
    return board
