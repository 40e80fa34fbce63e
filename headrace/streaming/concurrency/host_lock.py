"""Lets one process of a host make a file that all of them need, while the others wait."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

from headrace.stores.waiting import wait
from headrace.streaming.concurrency.file_locks import lock, release

_POLL_SECONDS = 0.005


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is being made; without a lock if the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        yield
        return
    try:
        lock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        release(descriptor)


@contextlib.contextmanager
def locked_for_a_while(path: Path, patience_seconds: float) -> Iterator[None]:
    """Hold a lock file, which is removed at the end; without the lock after a while, or if it cannot be made.

    A process that waited for the removed file holds it beside one that made the file again. So a process that gets the
    lock first looks whether another has made what the lock is for.

    Raises:
        CancelledError: the result is no longer wanted (`headrace.stores.waiting`).
    """
    deadline = time.monotonic() + patience_seconds
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            held.callback(release, descriptor)
            while not lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and time.monotonic() < deadline:
                if not wait(_POLL_SECONDS):
                    raise CancelledError
            held.callback(path.unlink, missing_ok=True)
        yield
