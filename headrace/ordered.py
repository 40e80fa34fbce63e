"""Running tasks on threads while their results are taken in order, with a bound on how many are under way.

Owns that loop and nothing else; what the tasks do is the caller's.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_in_order(pool: Executor, function: Callable[[T], R], tasks: Iterable[T], *, window: int) -> Iterator[R]:
    """Results of `function` over `tasks`, in their order; at most `window` are under way or waiting to be taken.

    Unlike `Executor.map` it neither reads all tasks nor keeps all results at once. An exception of a task is raised
    where its result would have come, and one of `tasks` itself after the results of the tasks before it: finished work
    is not lost. Tasks that have not begun are cancelled.
    """
    waiting = iter(tasks)
    failure: Exception | None = None
    under_way: deque[Future[R]] = deque()

    def start(count: int) -> Exception | None:
        try:
            under_way.extend(pool.submit(function, task) for task in islice(waiting, count))
        except Exception as error:  # noqa: BLE001 - raised again, in its turn
            return error
        return None

    try:
        failure = start(window)
        while under_way:
            result = under_way.popleft().result()
            failure = failure or start(1)
            yield result
        if failure is not None:
            raise failure
    finally:
        for future in under_way:
            future.cancel()
