"""Holds many names in a few bytes each: `SeenNames`, `NameIndex`, and `Kept`, which bounds the memory of such values.

`SeenNames` compares digests of 128 bits, so that no two different names count as one.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

_DIGEST = np.dtype("S16")
_KEPT_BYTES = 64 << 20

T = TypeVar("T")


def _digests(names: Iterable[str]) -> NDArray[np.bytes_]:
    blob = b"".join(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest() for name in names)
    return np.frombuffer(blob, _DIGEST)


class SeenNames:
    """The names that have come so far.

    They are in a few sorted arrays, each at least twice as long as the next one.
    """

    def __init__(self) -> None:
        """No name has come."""
        self._sorted: list[NDArray[np.bytes_]] = []

    def add(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Add names. Returns which of them come for the first time: bool (n,).

        >>> seen = SeenNames()
        >>> seen.add(["a", "b", "a"]).tolist(), seen.add(["c", "b"]).tolist()
        ([True, True, False], [True, False])
        """
        digests = _digests(names)
        is_new = np.zeros(len(digests), np.bool_)
        is_new[np.unique(digests, return_index=True)[1]] = True
        for known in self._sorted:
            is_new &= known[np.searchsorted(known, digests).clip(max=len(known) - 1)] != digests
        self._keep(np.sort(digests[is_new]))
        return is_new

    def _keep(self, digests: NDArray[np.bytes_]) -> None:
        while self._sorted and len(self._sorted[-1]) < 2 * len(digests):
            digests = np.concatenate([self._sorted.pop(), digests])
            digests.sort(kind="stable")
        if len(digests):
            self._sorted.append(digests)


class NameIndex:
    """Numbers of names, at 16 bytes each at most: a sorted array of hashes of 64 bits, which differ for all names.

    A name that is not there may be taken for one that is, by one chance in 10¹³ for a million names.

    >>> index = NameIndex(["a", "b"], [512, 2048])
    >>> index.number("b"), index.number("c")
    (2048, None)
    """

    def __init__(self, names: Sequence[str], numbers: Sequence[int]) -> None:
        """Index names, each of which is there once. Numbers are from 0 on."""
        self._salt = 0
        hashes = _hashes(names, self._salt)
        while len(np.unique(hashes)) < len(names):
            self._salt += 1
            hashes = _hashes(names, self._salt)
        order = np.argsort(hashes)
        of_size = np.min_scalar_type(max(numbers, default=0))
        self._hashes, self._numbers = hashes[order], np.array(numbers, of_size)[order]

    @property
    def num_bytes(self) -> int:
        """Its size in memory."""
        return self._hashes.nbytes + self._numbers.nbytes

    def number(self, name: str) -> int | None:
        """The number of a name; None if it is not there."""
        wanted = _hashes([name], self._salt)[0]
        at = int(np.searchsorted(self._hashes, wanted))
        return int(self._numbers[at]) if at < len(self._hashes) and self._hashes[at] == wanted else None


def _hashes(names: Iterable[str], salt: int) -> NDArray[np.uint64]:
    key = salt.to_bytes(16, "little")
    encoded = (name.encode("utf-8", "surrogatepass") for name in names)
    return np.frombuffer(b"".join(blake2b(name, digest_size=8, salt=key).digest() for name in encoded), np.uint64)


class Kept(Generic[T]):
    """Values that are made once and kept while there is room; the one that was asked for longest ago goes first."""

    def __init__(self, num_bytes: Callable[[T], int], most_bytes: int = _KEPT_BYTES) -> None:
        """Keep nothing yet.

        Args:
            num_bytes: the size of a value.
            most_bytes: what all values may take together; the last one is kept whatever it takes.
        """
        self._num_bytes, self._most_bytes, self._used = num_bytes, most_bytes, 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """The value of a key; `make` makes it if it is not there. Threads that want one value wait for the first."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            try:
                return self._found(key, make)
            finally:
                self._making.pop(key, None)

    def _found(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._used += self._num_bytes(value)
            while self._used > self._most_bytes and len(self._values) > 1:
                self._used -= self._num_bytes(self._values.popitem(last=False)[1])
        return value
