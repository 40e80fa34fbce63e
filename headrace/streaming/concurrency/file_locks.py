"""Locks on files that processes of a host share, by `flock`, which the kernel releases when a process dies.

A lock belongs to the open file, and a forked child has the same open file. So a lock is released by `LOCK_UN`, which
holds for both processes, before the file is closed; otherwise it would be held until the child ends.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path

_LOCK_ATTEMPTS = 5
_LOCK_PAUSE_SECONDS = 0.002


def lock(descriptor: int, how: int, *, without_locks: bool = True) -> bool:
    """Lock a file. Returns whether it is locked; `without_locks` on a file system without locks."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True


def release(descriptor: int) -> None:
    """Unlock and close a file."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process has an exclusive lock on the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        release(descriptor)


def lock_soon(descriptor: int) -> bool:
    """Take an exclusive lock, with retries because `is_arriving` takes a shared one briefly. Returns the success."""
    for _ in range(_LOCK_ATTEMPTS):
        if lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
        time.sleep(_LOCK_PAUSE_SECONDS)
    return False


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def remove_unlocked(path: Path) -> None:
    """Remove a file unless a process holds its lock."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # Without locks, nobody knows whether a process is still writing the file.
        if lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, without_locks=False) and is_at(descriptor, path):
            path.unlink()
    finally:
        release(descriptor)
