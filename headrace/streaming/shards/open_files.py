"""The files that this process keeps open, of all its streams together.

Owns how many: a process may open only so many (`ulimit -n`, often 1,024), which a mixture of many streams would soon
reach. The files used least lately are let go; whoever still reads one holds it open.
"""

import os
import resource
import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakSet

from headrace.streaming.shards.opened import FileShard

_SHARE = 2  # half of what a process may open is for everybody else


class OpenFiles:
    """The files of one stream; safe for threads."""

    def __init__(self) -> None:
        self.notes: dict[int, Any] = {}
        """What a reader noted of shards whose files are kept, by shard; to be read only."""
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
        """The file of a shard, which counts as used; None when it is not kept."""
        with _guard.lock:
            if (found := self._files.get(shard)) is not None:
                self._files.move_to_end(shard)
            return found

    def keep(self, shard: int, file: FileShard, most: int) -> None:
        """Keep a file, as one of this stream's `most` and of the process's share."""
        with _guard.lock:
            self._files[shard] = file
            while len(self) > most:
                self.let_one_go()
            while sum(map(len, _guard.members)) > _budget():
                max(_guard.members, key=len).let_one_go()

    def note(self, shard: int, facts: object) -> None:
        """Have something in `notes` for as long as a shard's file is kept: it may hold the file open."""
        with _guard.lock:
            if shard in self._files:
                self.notes[shard] = facts

    def let_go(self, shard: int) -> None:
        """Let go of a shard's file, if it is kept."""
        with _guard.lock:
            self._files.pop(shard, None)
            self.notes.pop(shard, None)

    def clear(self) -> None:
        """Let go of all."""
        with _guard.lock:
            while self._files:
                self.let_one_go()

    def let_one_go(self) -> None:
        """Let go of the file used least lately."""
        shard, _ = self._files.popitem(last=False)
        self.notes.pop(shard, None)


class _Guard:
    """Everybody who keeps files in this process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start anew: in a child the lock may be held by a thread that only the parent has."""
        self.lock = threading.RLock()  # the end of some object may come in here at any moment
        self.members: WeakSet[OpenFiles] = WeakSet()


_guard = _Guard()
os.register_at_fork(after_in_child=_guard.reset)


def _budget() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if limit == resource.RLIM_INFINITY else limit // _SHARE
