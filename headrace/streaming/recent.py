"""Keeps the last few results of a computation.

Unlike `functools.lru_cache` around a bound method, it does not hold the object whose method computes. So there is no
cycle of references, and what the object holds, such as open files, goes with its last user.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The results that were used last, by key; safe for threads, which may compute one twice."""

    def __init__(self, most: int) -> None:
        """Keep nothing yet, and later at most this many results."""
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, compute: Callable[[K], V]) -> V:
        """The result of a key, computed unless it is kept."""
        try:
            value = self._kept.pop(key)
        except KeyError:
            value = compute(key)
        self._kept[key] = value
        with contextlib.suppress(KeyError):
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value
