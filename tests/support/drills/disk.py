"""A simulated bad disk: counts the accesses of this process to a folder, and kills the process or fails at one of them.

For child processes only: the patches of `os` are not undone.
"""

import builtins
import enum
import errno
import io
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NEEDS_ROOM = {"write", "open for writing", "link", "rename", "mkdir", "posix_fallocate", "fsync"}


class Trouble(enum.Enum):
    """Trouble at the chosen access, and at later ones."""

    KILL = enum.auto()  # SIGKILL; of what is written half is there
    FULL = enum.auto()  # ENOSPC, and again of all that needs room; of what is written half is there
    FAIL = enum.auto()  # EIO, once


@dataclass(slots=True)
class Disk:
    """Accesses to a folder.

    Attributes:
        folder: the folder.
        moment: number of the access that fails, counted from 0; None for no failure.
        trouble: what happens at that access.
        kinds: kinds of accesses that count; empty for all kinds.
        num_accesses: number of accesses so far.
        hit: the access that failed, such as "write audio/x.tar"; empty before it.
    """

    folder: Path
    moment: int | None = None
    trouble: Trouble = Trouble.KILL
    kinds: frozenset[str] = frozenset()
    num_accesses: int = 0
    hit: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def access(self, kind: str, path: Any, some: Callable[[], object] = lambda: None) -> None:
        """Count one access, and fail if it is the chosen one. `some` does a part of the access first."""
        name = os.fspath(path) if not isinstance(path, int) else _name_of(path)
        name = name.decode() if isinstance(name, bytes) else name
        if not f"{Path.cwd() / name}".startswith(f"{self.folder}/") or (self.kinds and kind not in self.kinds):
            return
        with self._lock:
            number, self.num_accesses = self.num_accesses, self.num_accesses + 1
            is_first = number == self.moment
            if is_first:
                self.hit = f"{kind} {os.path.relpath(name, self.folder)}"
        if is_first and self.trouble is Trouble.KILL:
            some()
            os.kill(os.getpid(), signal.SIGKILL)
        if is_first and self.trouble is Trouble.FAIL:
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        if self.trouble is Trouble.FULL and self.moment is not None and number >= self.moment and kind in _NEEDS_ROOM:
            if not self.hit:
                self.hit = f"{kind} {os.path.relpath(name, self.folder)}"
            some()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


def watch(disk: Disk) -> Disk:
    """Route all file accesses of this process through the disk. This cannot be undone."""
    _watch_files(disk)
    for name, kind in {"mkdir": "mkdir", "scandir": "list", "listdir": "list", "unlink": "unlink"}.items():
        _watch(disk, name, kind, 0)
    for name, kind in {"replace": "rename", "rename": "rename", "link": "link"}.items():
        _watch(disk, name, kind, 1)
    for name in ("stat", "lstat"):
        _watch(disk, name, "stat", 0)
    for name in ("fsync", "posix_fallocate", "pread", "preadv"):
        _watch(disk, name, name, 0)
    return disk


def _watch(disk: Disk, name: str, kind: str, place: int) -> None:
    """Route a function of `os` through the disk. `place`: which argument is the path or descriptor."""
    real = getattr(os, name)

    def watched(*args: Any, **more: Any) -> Any:
        if len(args) > place and args[place] is not None:
            disk.access(kind, args[place])
        return real(*args, **more)

    setattr(os, name, watched)


def _watch_files(disk: Disk) -> None:
    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            view = memoryview(data)
            disk.access("write", self.name, lambda: super(Raw, self).write(view[: len(view) // 2]))
            return super().write(data)

        def readinto(self, buffer: Any) -> int:
            disk.access("read", self.name)
            return super().readinto(buffer)

        def read(self, size: int = -1) -> bytes:
            disk.access("read", self.name)
            return super().read(size)

        def readall(self) -> bytes:
            disk.access("read", self.name)
            return super().readall()

    real = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **more: Any) -> Any:
        """An opened file whose reads and writes count. Opening a file for writing counts as well."""
        if isinstance(file, int) or "b" not in mode or args:
            return real(file, mode, buffering, *args, **more)
        if set(mode) & set("wxa+"):
            disk.access("open for writing", file)
        raw = Raw(os.fspath(file), mode.replace("b", ""), opener=more.get("opener"))
        if buffering == 0:
            return raw
        size = io.DEFAULT_BUFFER_SIZE if buffering < 0 else buffering
        kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        return kind(raw, size)

    io.open = builtins.open = opened


def _name_of(descriptor: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return "/"
