"""Runs tasks on daemon threads, which do not delay the end of the process.

`concurrent.futures` joins its threads at exit, so a read that hangs would block Ctrl-C; these threads do not.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from headrace.stores.waiting import waits_end_with

_END = -1  # before all tasks


class WorkThreads:
    """Daemon threads that run tasks: lower ranks first, equal ranks in the order of submission."""

    def __init__(self, num_threads: int, name: str) -> None:
        """No thread starts before there is a task for it."""
        self._num_threads = num_threads
        self._name = name
        self._threads: list[threading.Thread] = []
        self._tasks: list[tuple[int, int, Callable[[], None] | None]] = []  # a heap
        self._due: SimpleQueue[None] = SimpleQueue()  # one for each task: `queue.PriorityQueue` is several times slower
        self._numbers = itertools.count()
        self._lock = threading.RLock()  # the end of an abandoned loader may close these at any allocation
        self._end = threading.Event()

    def submit(self, task: Callable[[], None], rank: int = 0) -> None:
        """Run `task` when a thread is free; it must not raise. `rank` is at least 0.

        Raises:
            RuntimeError: this process cannot start a thread, and has none.
        """
        with self._lock:
            if len(self._threads) < self._num_threads and not self._end.is_set():
                self._start_one()
        self._put(rank, task)

    def close(self, timeout_seconds: float = 1.0) -> None:
        """End the threads: idle and waiting ones (`headrace.stores.waiting`) at once, others after their task.

        Tasks that were not begun are dropped, with everything they refer to.
        """
        self._end.set()
        with self._lock:
            threads, self._threads = self._threads, []
            dropped, self._tasks = self._tasks, []
        del dropped
        for _ in threads:
            self._put(_END, None)
        deadline = time.monotonic() + timeout_seconds
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _start_one(self) -> None:
        name = f"headrace-{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the limit of a container: the existing threads do the work
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _put(self, rank: int, task: Callable[[], None] | None) -> None:
        with self._lock:
            if self._end.is_set() and task is not None:
                return
            heapq.heappush(self._tasks, (rank, next(self._numbers), task))
        self._due.put(None)

    def _run(self) -> None:
        with waits_end_with(self._end):
            while (task := self._next()) is not None:
                if not self._end.is_set():
                    task()
                del task  # a waiting thread must not keep a batch alive

    def _next(self) -> Callable[[], None] | None:
        """The next task; None at the end."""
        self._due.get()
        with self._lock:
            return heapq.heappop(self._tasks)[2] if self._tasks else None
