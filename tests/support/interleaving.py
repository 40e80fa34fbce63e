"""Actors on one store that advance step by step, in any order. Each access to the store is a step.

An actor runs in a thread of its own and waits before every access until the test lets it continue. A listing is two
steps, and may or may not show a change between them.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from headrace.stores.storage import Content, Storage, StoredObject


class KilledError(BaseException):
    """Raised in a killed actor at every access, so that it has no further effect."""


@dataclass
class Actor:
    """Work on a store that advances one access at a time."""

    work: Callable[["Actor"], object]
    num_steps: int = 0
    error: BaseException | None = None
    is_done: bool = False
    _is_killed: bool = False
    _turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _rest: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _thread: threading.Thread | None = None

    def wait(self) -> None:
        """Wait for permission. Called by the actor before an access."""
        self._rest.release()
        self._turn.acquire()
        if self._is_killed:
            raise KilledError
        self.num_steps += 1

    def step(self) -> bool:
        """Let the actor make one access. Returns False if it has finished."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            self._rest.acquire()
        if self.is_done:
            return False
        self._turn.release()
        self._rest.acquire()
        return True

    def go(self, num_steps: int) -> None:
        """Let the actor make this many accesses."""
        for _ in range(num_steps):
            if not self.step():
                return

    def finish(self) -> None:
        """Let the actor run to its end."""
        while self.step():
            pass
        if self._thread is not None:
            self._thread.join()

    def kill(self) -> None:
        """Kill the actor."""
        self._is_killed = True
        self.finish()

    def _run(self) -> None:
        try:
            self.work(self)
        except BaseException as error:  # noqa: BLE001 - the test inspects it
            self.error = error
        self.is_done = True
        self._rest.release()


@dataclass(frozen=True)
class Stepped:
    """A store as one actor sees it."""

    inner: Storage
    actor: Actor
    created: Callable[[Storage, str], None] = lambda storage, path: None

    @property
    def uri(self) -> str:
        return self.inner.uri

    def at(self, folder: str) -> "Stepped":
        return Stepped(self.inner.at(folder), self.actor, self.created)

    def read(self, path: str) -> bytes:
        self.actor.wait()
        return self.inner.read(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.actor.wait()
        return self.inner.read_ranges(path, ranges)

    def open(self, path: str) -> BinaryIO:
        self.actor.wait()
        return self.inner.open(path)

    def size(self, path: str) -> int:
        self.actor.wait()
        return self.inner.size(path)

    def stat(self, path: str) -> StoredObject:
        self.actor.wait()
        return self.inner.stat(path)

    def version(self, path: str) -> str:
        self.actor.wait()
        return self.inner.version(path)

    def exists(self, path: str) -> bool:
        self.actor.wait()
        return self.inner.exists(path)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        self.actor.wait()
        first = [entry for entry in self.inner.list(prefix) if sum(entry.path.encode()) % 2]
        self.actor.wait()
        second = [entry for entry in self.inner.list(prefix) if not sum(entry.path.encode()) % 2]
        yield from sorted([*first, *second], key=lambda entry: entry.path)

    def write(self, path: str, data: Content) -> None:
        self.actor.wait()
        self.inner.write(path, data)

    def create(self, path: str, data: bytes) -> None:
        self.actor.wait()
        self.inner.create(path, data)
        self.created(self.inner, path)

    def delete(self, path: str) -> None:
        self.actor.wait()
        self.inner.delete(path)

    def local_path(self, path: str) -> Path | None:
        return self.inner.local_path(path)
