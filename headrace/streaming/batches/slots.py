"""Shared memory that batches travel in: a worker decodes into it, and the consumer's tensors lie on it.

Owns the memory of both sides. A slot is an anonymous memory file, named nowhere, so nothing is left
behind whatever dies. The consumer gives a slot back when the last tensor on it is gone; if it keeps all batches, the
worker makes new slots, so nobody ever waits for one.
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
_SMALLEST_BYTES = 1 << 18  # smaller arrays travel in the message


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that the consumer has not seen yet; its file descriptor follows the message."""

    number: int
    num_bytes: int


class SlotAllocator:
    """The worker's side: arrays of a batch in slots (`Allocator`). Used by one thread."""

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
        """The slot that a buffer lies at the start of; None for other memory."""
        return self._addresses.get(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0] if len(buffer) else 0)

    def take_back(self, numbers: Iterable[int]) -> None:
        """The consumer is done with these."""
        self._free.update(numbers)

    def sent(self, numbers: Iterable[int]) -> None:
        """These went to the consumer; what else was taken since the last call is of no batch and free again."""
        self._free |= self._taken.difference(numbers)
        self._taken.clear()

    def unseen(self) -> list[tuple[NewSlot, int]]:
        """Slots made since the last call, with their file descriptors, which the caller closes."""
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
        # A deque, because a finalizer may run in the middle of anything.
        self._returned: deque[int] = deque()

    def add(self, slot: NewSlot, descriptor: int) -> None:
        """Map a slot that the worker made; takes over the descriptor."""
        self._maps[slot.number] = mmap.mmap(descriptor, slot.num_bytes)
        os.close(descriptor)

    def lease(self, number: int, num_bytes: int) -> NDArray[np.uint8]:
        """A slot's first bytes; it counts as returned once nothing looks at them any more."""
        lease = np.frombuffer(self._maps[number], np.uint8, num_bytes)
        weakref.finalize(lease, self._returned.append, number).atexit = False
        return lease

    def returned(self) -> list[int]:
        """Slots that were given back since the last call."""
        return [self._returned.popleft() for _ in range(len(self._returned))]
