"""Keeps what was parsed from immutable files, so that a process that looks again reads only what is new.

A file is known by its store, path, size and time of change. Files of the last seconds are always read, because a time
of change is coarse, and so is memory that a process shares with nobody. How much is kept is bounded by the sizes of the
files. Nothing here decides which files are immutable.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from headrace.stores.refetch import read_sound
from headrace.stores.storage import Storage, StoredObject

T = TypeVar("T")

_MOST_BYTES = 32 << 20
_COST_BYTES = 1 << 10  # at least, of each entry
_SETTLED_SECONDS = 5.0


class ParsedFiles:
    """The parsed files that were used last; safe for threads."""

    def __init__(self, most_bytes: int = _MOST_BYTES, clock: Callable[[], float] = time.time) -> None:
        """Keep parsed files whose sizes are at most `most_bytes` in total."""
        self._most_bytes, self._clock = most_bytes, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], tuple[Any, int]] = OrderedDict()
        self._num_bytes = 0

    def read(
        self, storage: Storage, entry: StoredObject, parse: Callable[[bytes, str], T], cost_bytes: int | None = None
    ) -> T:
        """The result of `parse` for a file that was listed; see `read_once`."""
        if storage.uri.startswith("memory:") or self._clock() - entry.modified_seconds < _SETTLED_SECONDS:
            return read_sound(storage, entry.path, parse)
        kind = parse.func if isinstance(parse, partial) else parse
        key = (storage.uri, entry.path, entry.num_bytes, entry.modified_seconds, kind)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: T = self._kept[key][0]
                return found
        parsed = read_sound(storage, entry.path, parse)
        self._keep(key, parsed, max(_COST_BYTES, entry.num_bytes if cost_bytes is None else cost_bytes))
        return parsed

    def _keep(self, key: tuple[object, ...], parsed: object, cost_bytes: int) -> None:
        with self._lock:
            if key in self._kept or cost_bytes > self._most_bytes:
                return
            self._kept[key] = parsed, cost_bytes
            self._num_bytes += cost_bytes
            while self._num_bytes > self._most_bytes:
                _, (_, freed) = self._kept.popitem(last=False)
                self._num_bytes -= freed


_FILES = ParsedFiles()


def read_once(
    storage: Storage, entry: StoredObject, parse: Callable[[bytes, str], T], cost_bytes: int | None = None
) -> T:
    """The result of `parse` for the bytes and whole name of a file that was listed, which this process parses once.

    Args:
        storage: the store.
        entry: the file, as listed.
        parse: a function of a module, or a `partial` of one with arguments that follow from the path.
        cost_bytes: about how much memory the result takes; None for the size of the file.

    Raises:
        NotFoundError: the file was deleted since, and this process has not parsed it.
    """
    return _FILES.read(storage, entry, parse, cost_bytes)
