"""Runs tasks ahead of the consumer of their results, in order, with a bound on how many are under way.

`map_in_order` runs a function over tasks on a pool. `start_in_order` is the same for tasks that the caller starts by
itself. `Backlog` is for a caller that adds tasks one by one. `TaskThreads` is a pool whose tasks end soon after an
error or Ctrl-C.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Pending(Protocol[R_co]):
    """A task that was started, such as a `concurrent.futures.Future`."""

    def result(self) -> R_co:
        """Wait for the result. Raises the task's exception."""

    def cancel(self) -> bool:
        """Cancel the task, unless it is running or done."""


class TaskThreads(ThreadPoolExecutor):
    """Threads for the tasks of a `with` block, which end soon if the block ends with an exception, also with Ctrl-C.

    Tasks that have not begun are cancelled. A task of several parts calls `go_on` between them.
    """

    def __init__(self, num_threads: int, name: str) -> None:
        super().__init__(num_threads, name)
        self._has_failed = threading.Event()

    def go_on(self) -> None:
        """Raise `CancelledError` if the block has ended with an exception: nobody takes the task's result."""
        if self._has_failed.is_set():
            raise CancelledError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the tasks; after an exception only for the present part of those that are running."""
        if kind is not None:
            self._has_failed.set()
        self.shutdown(cancel_futures=kind is not None)


@dataclass(frozen=True, slots=True)
class WeightLimit(Generic[T]):
    """A bound besides the number of tasks.

    Attributes:
        weigh: weight of a task, such as the memory that its result takes.
        max_weight: no task is started while the tasks under way, or with results not taken yet, weigh this much.
    """

    weigh: Callable[[T], float] = lambda task: 0.0  # noqa: ARG005
    max_weight: float = math.inf


def map_in_order(
    pool: Executor,
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    window: int,
    limit: WeightLimit[T] | None = None,
) -> Generator[R, None, None]:
    """Results of `function` over `tasks`, in the order of the tasks.

    Unlike `Executor.map`, this neither reads all tasks at once nor keeps all results. See `start_in_order` for the
    bounds and for exceptions.
    """
    return start_in_order(lambda task: pool.submit(function, task), tasks, window=window, limit=limit)


def start_in_order(
    start: Callable[[T], Pending[R]],
    tasks: Iterable[T],
    *,
    window: int,
    limit: WeightLimit[T] | None = None,
) -> Generator[R, None, None]:
    """Results of tasks, in the order of the tasks.

    Args:
        start: starts a task.
        tasks: read only as far as tasks are started.
        window: the most tasks that are under way, or have results that are not taken yet.
        limit: a bound on the weight of these tasks.

    Raises:
        Exception: that of a task in place of its result, or that of `tasks` after the results of all tasks before it.
            Tasks that are not running yet are then cancelled.
    """
    started: _Started[T, R] = _Started(iter(tasks), limit or WeightLimit(), window)
    try:
        started.fill(start)
        while started.pending:
            result = started.take()
            started.fill(start)
            yield result
        if started.error is not None:
            raise started.error
    finally:
        for _, task in started.pending:
            task.cancel()


@dataclass(slots=True)
class _Started(Generic[T, R]):
    """Tasks under way, or with results that are not taken yet, and their weights."""

    waiting: Iterator[T]
    limit: WeightLimit[T]
    window: int
    pending: deque[tuple[float, Pending[R]]] = field(default_factory=deque)
    weight: float = 0.0
    error: Exception | None = None

    def fill(self, start: Callable[[T], Pending[R]]) -> None:
        """Start as many further tasks as both bounds allow."""
        while self.error is None and len(self.pending) < self.window and self.weight < self.limit.max_weight:
            try:
                task = next(self.waiting)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001 - raised again in the consumer, in its turn
                self.error = error
                return
            weight = self.limit.weigh(task)
            self.pending.append((weight, start(task)))
            self.weight += weight

    def take(self) -> R:
        """The result of the task that was started first."""
        weight, task = self.pending.popleft()
        result = task.result()
        self.weight -= weight
        return result


@dataclass(slots=True)
class Backlog(Generic[R]):
    """Tasks that the caller started and added; their results are taken in the order in which they were added."""

    _pending: deque[tuple[float, Future[R]]] = field(default_factory=deque)
    _weight: float = 0.0

    def add(self, task: Future[R], weight: float = 1.0) -> None:
        """Add a task that was started."""
        self._pending.append((weight, task))
        self._weight += weight

    def take(self, max_weight: float) -> Iterator[R]:
        """Wait until what is left weighs no more than this; yield the results of the others and of finished tasks.

        Tasks weigh 1 each unless they were added with another weight.

        Raises:
            Exception: that of a task, in place of its result.
        """
        while self._pending and (self._weight > max_weight or max_weight <= 0 or self._pending[0][1].done()):
            weight, task = self._pending.popleft()
            self._weight -= weight
            yield task.result()
