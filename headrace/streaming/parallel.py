"""Threads that nobody has to wait for.

Owns running tasks on daemon threads. `concurrent.futures` joins its threads at exit, so a read that hangs would hold up
Ctrl-C; these do not.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_END = -1  # before all tasks
_MOST_THREADS = 32  # of one call


class WorkThreads:
    """Daemon threads that run tasks: those of lower rank first, else in the order in which they were submitted."""

    def __init__(self, num_threads: int, name: str) -> None:
        """Nothing starts before it has a task."""
        self._num_threads = num_threads
        self._name = name
        self._threads: list[threading.Thread] = []
        self._tasks: list[tuple[int, int, Callable[[], None] | None]] = []  # a heap
        self._due: SimpleQueue[None] = SimpleQueue()  # one for each task: `queue.PriorityQueue` is several times slower
        self._numbers = itertools.count()
        self._lock = threading.RLock()  # the end of an abandoned loader may close these at any allocation
        self._is_closed = False

    def submit(self, task: Callable[[], None], rank: int = 0) -> None:
        """Run `task` when a thread is free; it must not raise. `rank` is at least 0.

        Raises:
            RuntimeError: the system lets this process start no thread.
        """
        with self._lock:
            if len(self._threads) < self._num_threads and not self._is_closed:
                self._start_one()
        self._put(rank, task)

    def close(self, timeout_seconds: float = 1.0) -> None:
        """End the threads: at once those that are idle, the others after their task; what waits is dropped."""
        with self._lock:
            self._is_closed = True
        for _ in self._threads:
            self._put(_END, None)
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _start_one(self) -> None:
        name = f"headrace-{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # as many as a container may have: those that there are do it
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _put(self, rank: int, task: Callable[[], None] | None) -> None:
        with self._lock:
            heapq.heappush(self._tasks, (rank, next(self._numbers), task))
        self._due.put(None)

    def _run(self) -> None:
        while (task := self._next()) is not None:
            if not self._is_closed:
                task()
            del task  # a waiting thread must not keep a batch alive

    def _next(self) -> Callable[[], None] | None:
        self._due.get()
        with self._lock:
            return heapq.heappop(self._tasks)[2]


def map_on_threads(function: Callable[[T], R], items: Sequence[T], name: str) -> list[R]:
    """Results of `function`, side by side on up to 32 threads: for waits on a network.

    Raises:
        Exception: that of the first item that failed.
    """
    results: list[Future[R]] = [Future() for _ in items]
    left = iter(list(zip(results, items, strict=True)))

    def run() -> None:
        for result, item in left:
            try:
                result.set_result(function(item))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller
                result.set_exception(error)

    try:
        for _ in range(min(len(items), _MOST_THREADS)):
            threading.Thread(target=run, name=f"headrace-{name}", daemon=True).start()
    except RuntimeError:  # the system gives no more of them
        run()
    return [result.result() for result in results]
