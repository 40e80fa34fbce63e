"""Running tasks on threads while their results are taken in order, with a bound on how many are under way.

Owns that loop and nothing else; what the tasks do is the caller's.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Budget(Generic[T]):
    """A bound besides the number of tasks.

    Attributes:
        weigh: what a task counts for, such as the memory that its result takes.
        max_weight: no further task is begun while those under way or waiting to be taken weigh so much together.
    """

    weigh: Callable[[T], float] = lambda task: 0.0  # noqa: ARG005
    max_weight: float = math.inf


def map_in_order(
    pool: Executor,
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    window: int,
    budget: Budget[T] | None = None,
) -> Iterator[R]:
    """Results of `function` over `tasks`, in their order; at most `window` are under way or waiting to be taken.

    Unlike `Executor.map` it neither reads all tasks nor keeps all results at once. An exception of a task is raised
    where its result would have come, one of `tasks` itself after the results of all tasks before it; tasks that have
    not begun are cancelled.
    """
    begun: _Begun[T, R] = _Begun(iter(tasks), budget or Budget(), window)
    try:
        begun.fill(pool, function)
        while begun.futures:
            result = begun.take()
            begun.fill(pool, function)
            yield result
        if begun.fault is not None:
            raise begun.fault
    finally:
        for _, future in begun.futures:
            future.cancel()


@dataclass(slots=True)
class _Begun(Generic[T, R]):
    """Tasks under way or waiting to be taken, with their weights."""

    waiting: Iterator[T]
    budget: Budget[T]
    window: int
    futures: deque[tuple[float, Future[R]]] = field(default_factory=deque)
    weight: float = 0.0
    fault: Exception | None = None

    def fill(self, pool: Executor, function: Callable[[T], R]) -> None:
        """Begin as many further tasks as there is room for."""
        while self.fault is None and len(self.futures) < self.window and self.weight < self.budget.max_weight:
            try:
                task = next(self.waiting)
            except StopIteration:
                return
            except Exception as fault:  # noqa: BLE001 - raised again in the consumer, in its turn
                self.fault = fault
                return
            weight = self.budget.weigh(task)
            self.futures.append((weight, pool.submit(function, task)))
            self.weight += weight

    def take(self) -> R:
        """The result of the task that was begun first."""
        weight, future = self.futures.popleft()
        result = future.result()
        self.weight -= weight
        return result
