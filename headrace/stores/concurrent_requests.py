"""Sends requests to stores at the same time, on daemon threads, which do not delay the end of the process.

`concurrent.futures` joins its threads at exit and after Ctrl-C, also those that send a failed request again and again.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

from headrace.stores.waiting import current_end, is_over, waits_end_with

T = TypeVar("T")
R = TypeVar("R")
_MOST_THREADS = 32  # of one call


def map_on_threads(function: Callable[[T], R], items: Sequence[T], name: str) -> list[R]:
    """Results of `function`, computed on up to 32 threads at the same time: for waits on a network.

    The waits of the threads end when those of the caller end, when an item fails, or when the caller is interrupted.

    Raises:
        Exception: the error of the first item that failed.
        CancelledError: the results are no longer wanted.
    """
    if len(items) <= 1:
        return [function(item) for item in items]
    results: list[_Result[R]] = [_Result() for _ in items]
    left = iter(list(zip(results, items, strict=True)))
    end = current_end() or threading.Event()

    def run() -> None:
        with waits_end_with(end):
            for result, item in left:
                result.fill(function, item)

    try:
        for _ in range(min(len(items), _MOST_THREADS)):
            threading.Thread(target=run, name=f"headrace-{name}", daemon=True).start()
    except RuntimeError:  # no more threads can be started
        run()
    try:
        return [result.take() for result in results]
    except BaseException:
        if current_end() is None:  # else others wait on it as well
            end.set()
        raise


class _Result(Generic[R]):
    """Result or error of one item, to be taken once. No other reference to an error is kept: it may hold open files."""

    def __init__(self) -> None:
        self._outcome: SimpleQueue[tuple[R | None, BaseException | None]] = SimpleQueue()

    def fill(self, function: Callable[[T], R], item: T) -> None:
        """Call the function, unless the result is no longer wanted."""
        try:
            self._outcome.put((None, CancelledError()) if is_over() else (function(item), None))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            self._outcome.put((None, error))
        finally:
            del self  # an error holds this frame

    def take(self) -> R:
        """Wait for the result. Raises what the function raised."""
        value, error = self._outcome.get()
        try:
            if error is not None:
                raise error
            return cast("R", value)
        finally:
            del error
