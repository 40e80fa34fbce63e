"""Shares epochs and loaded states between a dataset and its copies in the workers of a torch DataLoader.

torch copies the dataset to each worker in each iteration, and the dataset is not informed that an iteration began: each
iteration would be epoch 0. So the copies write the epochs that they begin into memory that they share with the dataset.
Persistent workers are not informed that the dataset loaded a state, so the dataset posts the state there.

The memory is an anonymous file, so nothing is left behind after a crash. Each worker writes one word of its own. Only
the dataset posts, and it writes the number of the post last, so no locks are needed.
"""

import mmap
import os
import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.machine import anonymous_file
from headrace.streaming.concurrency.descriptors import descriptor_of, for_starting_process, is_starting_a_process

_NUM_WORKERS = 1024
_NUM_BYTES = _NUM_WORKERS * 8
_EPOCH_BITS = 32
_EPOCH_MASK = 2**_EPOCH_BITS - 1
_POSTED = struct.Struct("<qq")  # number of the post, and number of the bytes that follow


class EpochBoard:
    """The epoch that each worker began last, with its iteration; shared with the copies in worker processes."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Create a board, or open the one of a file descriptor, which then belongs to this object."""
        self._descriptor = anonymous_file("headrace-epochs") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self._descriptor, _NUM_BYTES + _POSTED.size)
        # The file is closed with the board, the memory with its last user. `__del__` is too late when a process ends.
        weakref.finalize(self, os.close, self._descriptor)
        # A word for each worker: 31 bits of the iteration's number, and epoch + 1 (0: none). One store writes it whole.
        self._words = np.frombuffer(mmap.mmap(self._descriptor, _NUM_BYTES), np.int64)

    def latest(self) -> int | None:
        """The newest epoch that any worker began; None if no worker began one."""
        newest = int((self._words & _EPOCH_MASK).max())
        return newest - 1 if newest else None

    def claim(self, worker: int, iteration: int, epoch: int) -> int:
        """The epoch of a worker: that of the other workers of the iteration, else the latest plus 1, at least `epoch`.

        Two workers that call this at the same time get the same epoch.

        Args:
            worker: number of the worker.
            iteration: number that only the workers of one iteration share: the base seed that torch draws for them.
            epoch: the epoch if no worker has begun one.
        """
        words = self._words.copy()
        siblings = words[words >> _EPOCH_BITS == _tag(iteration)] & _EPOCH_MASK
        if siblings.any():
            found = int(siblings.max()) - 1
        else:
            latest = int((words & _EPOCH_MASK).max()) - 1
            found = max(epoch, latest + 1)
        self.write(worker, iteration, found)
        return found

    def write(self, worker: int, iteration: int, epoch: int) -> None:
        """Record that a worker has begun `epoch`."""
        self._words[worker % _NUM_WORKERS] = _tag(iteration) << _EPOCH_BITS | epoch + 1

    def clear(self) -> None:
        """Clear all epochs: a loaded state decides the epoch."""
        self._words[:] = 0

    def post(self, content: bytes) -> int:
        """Post bytes for all copies. Returns the number of the post."""
        number = self._posted()[0] + 1
        os.pwrite(self._descriptor, content, _NUM_BYTES + _POSTED.size)
        os.pwrite(self._descriptor, _POSTED.pack(number, len(content)), _NUM_BYTES)
        return number

    def posted(self, seen: int) -> tuple[int, bytes | None]:
        """The number of the last post, and its bytes; None instead of the bytes if the number is `seen`."""
        number, num_bytes = self._posted()
        if number == seen:
            return number, None
        content = os.pread(self._descriptor, num_bytes, _NUM_BYTES + _POSTED.size)
        return (number, content) if self._posted() == (number, num_bytes) else self.posted(seen)

    def _posted(self) -> tuple[int, int]:
        number, num_bytes = _POSTED.unpack(os.pread(self._descriptor, _POSTED.size, _NUM_BYTES))
        return number, num_bytes

    def __reduce__(self) -> tuple[Callable[..., "EpochBoard"], tuple[Any, ...]]:
        """Pickle for a process that is being started, with the same memory; else as a copy of its content."""
        if is_starting_a_process():
            return _shared, (for_starting_process(self._descriptor),)
        return _copied, (os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0),)


def _tag(iteration: int) -> int:
    return iteration & 0x7FFFFFFF


def _shared(descriptor: Any) -> EpochBoard:  # noqa: ANN401 - multiprocessing's own
    return EpochBoard(descriptor_of(descriptor))


def _copied(content: bytes) -> EpochBoard:
    board = EpochBoard()
    os.pwrite(board._descriptor, content, 0)  # noqa: SLF001 - its own module
    return board
