"""Threads that nobody has to wait for.

Owns running tasks on daemon threads. `concurrent.futures` joins its threads at exit, so a read that hangs would hold up
Ctrl-C; these do not.
"""

import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_END = -1  # before all tasks


class WorkThreads:
    """Daemon threads that run tasks: those of lower rank first, else in the order in which they were submitted."""

    def __init__(self, num_threads: int, name: str) -> None:
        self._tasks: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._threads = [
            threading.Thread(target=self._run, name=f"headrace-{name}-{number}", daemon=True)
            for number in range(num_threads)
        ]
        self._is_closed = False
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], None], rank: int = 0) -> None:
        """Run `task` when a thread is free; it must not raise. `rank` is at least 0."""
        self._tasks.put((rank, next(self._numbers), task))

    def close(self, timeout_seconds: float = 1.0) -> None:
        """End the threads: at once those that are idle, the others after their task; what waits is dropped."""
        self._is_closed = True
        for _ in self._threads:
            self._tasks.put((_END, next(self._numbers), None))
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (task := self._tasks.get()[2]) is not None:
            if not self._is_closed:
                task()
            del task  # a waiting thread must not keep a batch alive


def map_on_threads(function: Callable[[T], R], items: Sequence[T], name: str) -> list[R]:
    """Results of `function`, each on a thread of its own: for a few waits on a network at a time.

    Raises:
        Exception: that of the first item that failed.
    """
    results: list[Future[R]] = [Future() for _ in items]

    def run(result: "Future[R]", item: T) -> None:
        try:
            result.set_result(function(item))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            result.set_exception(error)

    for result, item in zip(results, items, strict=True):
        threading.Thread(target=run, args=(result, item), name=f"headrace-{name}", daemon=True).start()
    return [result.result() for result in results]
