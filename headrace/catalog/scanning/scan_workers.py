"""Runs the reading of a scan's files: the interface `FileWorkers`, and its implementation with local threads.

What is read of a file is decided in `headrace.catalog.scanning.probing`.
"""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 4  # items per thread that wait or have results that are not taken yet


class FileWorkers(Protocol):
    """Threads or machines that read files."""

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """The result of `function` for each item, as soon as it is there, in any order.

        Only a bounded number of items and results is in memory. When the iterator is closed, items that were not
        started are dropped.

        Args:
            function: it and its items may be pickled and sent to another machine.
            items: read only as far as work is started.

        Raises:
            Exception: what `function` or `items` raises.
            BuildError: the machines that did the work are gone.
        """


@dataclass(frozen=True, slots=True)
class ReadingThreads:
    """Threads of this machine. Hashing and reading release the GIL."""

    num_threads: int

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result, None, None]:
        """See `FileWorkers.map`."""
        waiting = iter(items)
        finished: SimpleQueue[Future[Result]] = SimpleQueue()
        num_under_way = 0
        pool = ThreadPoolExecutor(self.num_threads, thread_name_prefix="headrace-scan")
        try:
            while True:
                for item in islice(waiting, _AHEAD * self.num_threads - num_under_way):
                    pool.submit(function, item).add_done_callback(finished.put)
                    num_under_way += 1
                if not num_under_way:
                    return
                done = finished.get()
                num_under_way -= 1
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)
