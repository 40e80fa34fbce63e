"""Shared memory for batches of worker processes: a worker decodes into a slot, and the consumer's tensors use it.

A slot is an anonymous memory file without a name, so nothing is left behind if a process dies. The consumer returns a
slot when the last tensor on it is gone. If it keeps all batches, the worker makes new slots, so neither process waits
for a slot.
"""

import math
import mmap
import os
import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.machine import anonymous_file

_PAGE_BYTES = 1 << 16
_SMALLEST_BYTES = 1 << 18  # smaller arrays are sent in the message


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that the consumer has not mapped yet; its file descriptor follows the message."""

    number: int
    num_bytes: int


class SlotAllocator:
    """The worker's side: allocates the arrays of a batch in slots (`Allocator`). For one thread."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        self._addresses: dict[int, int] = {}
        self._free: set[int] = set()
        self._taken: set[int] = set()
        self._unseen: list[tuple[NewSlot, int]] = []

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """See `Allocator.empty`."""
        kind = np.dtype(dtype)
        num_bytes = math.prod(shape) * kind.itemsize
        if num_bytes < _SMALLEST_BYTES:
            return np.empty(shape, kind)
        number = self._take(num_bytes)
        self._taken.add(number)
        array = np.frombuffer(self._maps[number], kind, math.prod(shape)).reshape(shape)
        self._addresses[array.__array_interface__["data"][0]] = number
        return array

    def slot_of(self, buffer: memoryview) -> int | None:
        """The slot whose first bytes are `buffer`; None for other memory."""
        return self._addresses.get(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0] if len(buffer) else 0)

    def take_back(self, numbers: Iterable[int]) -> None:
        """Mark slots as free that the consumer returned."""
        self._free.update(numbers)

    def sent(self, numbers: Iterable[int]) -> None:
        """Mark slots as sent to the consumer; other slots taken since the last call are in no batch and free again."""
        self._free |= self._taken.difference(numbers)
        self._taken.clear()

    def unseen(self) -> list[tuple[NewSlot, int]]:
        """Slots made since the last call, with their file descriptors, which the caller must close."""
        made, self._unseen = self._unseen, []
        return made

    def _take(self, num_bytes: int) -> int:
        fitting = [n for n in self._free if num_bytes <= len(self._maps[n]) <= 2 * num_bytes]
        if fitting:
            number = min(fitting, key=lambda n: len(self._maps[n]))
            self._free.remove(number)
            return number
        number = len(self._maps)
        size = -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES
        descriptor = anonymous_file(f"headrace-batch-{number}")
        os.ftruncate(descriptor, size)
        self._maps[number] = mmap.mmap(descriptor, size)
        self._unseen.append((NewSlot(number, size), descriptor))
        return number


class SlotViews:
    """The consumer's side: the slots of one worker."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        # A deque without a lock: a finalizer may run at any point.
        self._returned: deque[int] = deque()

    def add(self, slot: NewSlot, descriptor: int) -> None:
        """Map a slot that the worker made, and close the descriptor."""
        self._maps[slot.number] = mmap.mmap(descriptor, slot.num_bytes)
        os.close(descriptor)

    def lease(self, number: int, num_bytes: int) -> NDArray[np.uint8]:
        """A slot's first bytes; the slot is returned when the last array on them is gone."""
        lease = np.frombuffer(self._maps[number], np.uint8, num_bytes)
        weakref.finalize(lease, self._returned.append, number).atexit = False
        return lease

    def returned(self) -> list[int]:
        """Slots that were returned since the last call."""
        return [self._returned.popleft() for _ in range(len(self._returned))]
