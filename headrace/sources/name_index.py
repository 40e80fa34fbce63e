"""Sets and positions of many names at some 20 bytes each: `SeenNames`, `NameIndex`, and `Kept`, which bounds their memory.

Names are compared by digests of 128 bits, so that two different names count as one in no corpus of this world.
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
    blob = b"".join(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).digest() for name in names)
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
    """The positions of names in a list.

    >>> NameIndex(["a", "b", "a"]).position("a"), NameIndex([]).position("a")
    (2, None)
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Index names. Of equal names the last one counts."""
        digests = _digests(names)
        order = np.argsort(digests, kind="stable")
        self._digests, self._positions = digests[order], order.astype(np.uint32)

    @property
    def num_bytes(self) -> int:
        """Its size in memory."""
        return self._digests.nbytes + self._positions.nbytes

    def position(self, name: str) -> int | None:
        """The position of a name from 0; None if the list does not have it."""
        wanted = _digests([name])[0]
        at = int(np.searchsorted(self._digests, wanted, side="right")) - 1
        return int(self._positions[at]) if at >= 0 and self._digests[at] == wanted else None


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
        self._lock = threading.Lock()

    def of(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """The value of a key; `make` makes it if it is not there. Two threads may make one value twice."""
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
