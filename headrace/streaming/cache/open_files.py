"""Keeps the shard files of all streams of this process open, up to a limit.

A process may open a limited number of files (`ulimit -n`, often 1,024), which a mixture of many streams would soon
reach. The least recently used files are released; a file is closed when its last reader releases it.
"""

import os
import resource
import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakSet

from headrace.streaming.cache.opened import FileShard

_SHARE = 2  # the other half of the limit is for the rest of the process


class OpenFiles:
    """The files of one stream; safe for threads."""

    def __init__(self) -> None:
        self.notes: dict[int, Any] = {}
        """Facts that readers noted with `note`, by shard, for shards whose files are kept; do not write to it."""
        self._files: OrderedDict[int, FileShard] = OrderedDict()
        with _guard.lock:
            _guard.members.add(self)

    def __len__(self) -> int:
        """Number of files."""
        return len(self._files)

    def __contains__(self, shard: int) -> bool:
        """Whether a shard's file is kept."""
        return shard in self._files

    def get(self, shard: int) -> FileShard | None:
        """The file of a shard, which counts as a use; None if it is not kept."""
        with _guard.lock:
            if (found := self._files.get(shard)) is not None:
                self._files.move_to_end(shard)
            return found

    def keep(self, shard: int, file: FileShard, most: int) -> None:
        """Keep a file open, with at most `most` files of this stream, and within the limit of the process."""
        with _guard.lock:
            self._files[shard] = file
            while len(self) > most:
                self.let_one_go()
            while sum(map(len, _guard.members)) > _budget():
                max(_guard.members, key=len).let_one_go()

    def note(self, shard: int, facts: object) -> None:
        """Put facts into `notes` for as long as the file of a shard is kept; they may refer to the file."""
        with _guard.lock:
            if shard in self._files:
                self.notes[shard] = facts

    def let_go(self, shard: int) -> None:
        """Release the file of a shard, if it is kept."""
        with _guard.lock:
            self._files.pop(shard, None)
            self.notes.pop(shard, None)

    def clear(self) -> None:
        """Release all files."""
        with _guard.lock:
            while self._files:
                self.let_one_go()

    def let_one_go(self) -> None:
        """Release the least recently used file."""
        shard, _ = self._files.popitem(last=False)
        self.notes.pop(shard, None)


class _Guard:
    """All `OpenFiles` of this process, and their lock."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again: in a forked child, the lock may be held by a thread that only the parent has."""
        self.lock = threading.RLock()  # a finalizer may call these methods at any moment
        self.members: WeakSet[OpenFiles] = WeakSet()


_guard = _Guard()
os.register_at_fork(after_in_child=_guard.reset)


def _budget() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if limit == resource.RLIM_INFINITY else limit // _SHARE
