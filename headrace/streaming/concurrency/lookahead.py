"""Works on the items of an iterator ahead of a consumer that takes the results in order.

`LookAhead` does so on threads, which also take the items: the consumer does nothing but wait for results. `begun_ahead`
is for a consumer that begins each item itself, such as by a message to another process. Both bound how many items are
under way, so memory is bounded as well. What the work is, is the caller's. `headrace.ordered` does the same for builds
on executors; their threads would delay the end of a training process, so here are daemon threads (`parallel`).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class PendingResult(Generic[R]):
    """One result that is yet to come; safe for threads.

    Attributes:
        number: of the item, from 0.
    """

    def __init__(self, number: int) -> None:
        """There is no result."""
        self.number = number
        self._is_over = False
        self._lock = threading.Lock()
        self._outcome: SimpleQueue[R | BaseException] = SimpleQueue()

    @property
    def is_over(self) -> bool:
        """Whether there is a result or an error, or nobody waits for one."""
        return self._is_over

    def end(self, outcome: R | BaseException) -> None:
        """Set the result, or the error that `result` raises; only the first call counts."""
        with self._lock:
            if not self._is_over:
                self._is_over = True
                self._outcome.put(outcome)

    def result(self) -> R:
        """Wait for the result; to be called once. Raises the error if there is one."""
        outcome = self._outcome.get()
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome
        finally:
            del outcome  # an error holds this frame, which would hold the error, and the results in its frames

    def drop(self) -> None:
        """Drop the result: nobody waits for it."""
        with self._lock:
            self._is_over = True
            while not self._outcome.empty():
                self._outcome.get_nowait()


class LookAhead(Generic[T, R]):
    """Works on items on threads; results come in the order of the items."""

    def __init__(
        self,
        items: Iterator[T],
        work: Callable[[T, PendingResult[R]], None],
        submit: Callable[[Callable[[], None]], None],
        depth: int,
        depth_at_start: int | None = None,
    ) -> None:
        """Nothing starts before `results` is iterated.

        Args:
            items: taken by the threads, one thread at a time. An error that it raises comes in the place of a result.
            work: makes a result and passes it to `PendingResult.end`, at once or on other threads later. May raise.
            submit: runs a task on a thread.
            depth: items under way at a time, besides the result that the consumer has.
            depth_at_start: the same until there is a first result; None for no difference.
        """
        self._items = items
        self._work = work
        self._submit = submit
        self._depth = depth
        self._depth_at_start = depth if depth_at_start is None else depth_at_start
        self._turn = threading.Lock()
        self._begun: SimpleQueue[PendingResult[R] | None] = SimpleQueue()
        self._num_begun = 0
        self._is_closed = False

    def results(self) -> Iterator[R]:
        """The results, in order; an error comes where its result would have come."""
        depth = self._depth_at_start
        for _ in range(depth):
            self._submit(self._begin_next)
        while (pending := self._begun.get()) is not None:
            result = pending.result()
            for _ in range(1 + self._depth - depth):
                self._submit(self._begin_next)
            depth = self._depth
            yield result
            del result  # the consumer alone keeps it

    def close(self) -> None:
        """Begin no more items, and drop results that nobody takes."""
        self._is_closed = True
        while not self._begun.empty():
            if (pending := self._begun.get_nowait()) is not None:
                pending.drop()

    def _begin_next(self) -> None:
        """Take the next item and work on it."""
        pending: PendingResult[R] = PendingResult(0)
        with self._turn:
            if self._is_closed:
                return
            pending.number, self._num_begun = self._num_begun, self._num_begun + 1
            try:
                item = next(self._items)
            except StopIteration:
                self._begun.put(None)
                return
            except BaseException as error:  # noqa: BLE001 - raised again in the consumer
                self._begun.put(pending)
                pending.end(error)
                return
            self._begun.put(pending)
        try:
            self._work(item, pending)
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            pending.end(error)


def begun_ahead(items: Iterator[T], begin: Callable[[T], Callable[[], R]], depth: int) -> Iterator[R]:
    """Results in the order of the items; `depth` items are begun when the first result is taken.

    Args:
        items: taken in the consumer's thread.
        begin: begins an item; returns what waits for its result, to be called once.
        depth: items under way at a time.
    """
    begun: deque[Callable[[], R]] = deque()
    for item in items:
        begun.append(begin(item))
        if len(begun) == depth:
            yield begun.popleft()()
    while begun:
        yield begun.popleft()()
