"""Makes batches on threads of this process, in order.

The rows of a batch are shared out over all threads, and threads fill an earlier batch before a later one: the first
batch comes as fast as all cores can make it, and only a few batches are in memory. Decoding and reading release the
GIL. A batch of the copy-only fast path is filled by the thread that opened it, while another thread opens the next.
The consumer only takes finished batches: if it planned or opened them, it would wait for the GIL, and the threads for
the consumer (docs/design/0019).
"""

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from headrace.streaming.batches.assembler import Assembler
from headrace.streaming.batches.batch import Batch
from headrace.streaming.batches.open_batch import OpenBatch
from headrace.streaming.concurrency.lookahead import LookAhead, PendingResult
from headrace.streaming.concurrency.parallel import WorkThreads
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.stats import Stage, StageSeconds

T = TypeVar("T")


class ThreadedBatches:
    """Makes the batches of a run ahead of their use, in this process (`BatchMaker`)."""

    def __init__(self, assembler: Assembler, *, num_threads: int, depth: int, is_local: bool) -> None:
        """Nothing starts before `run`.

        Args:
            assembler: opens the batches.
            num_threads: threads that decode.
            depth: batches under way at a time, besides the one that the consumer has.
            is_local: whether all shards are local files. Opening those is Python code, which one thread at a time runs
                fastest; threads that open shards of stores mostly wait.
        """
        self.work = StageSeconds()
        self._assembler = assembler
        self._num_threads = num_threads
        self._depth = depth
        self._is_local = is_local
        self._openers = WorkThreads(min(num_threads, depth) if is_local else depth, "open")
        self._decoders = WorkThreads(num_threads, "decode")
        self._close_ahead: Callable[[], None] = _do_nothing
        self._parts: dict[int, _Parts] = {}  # of the batches under way, by number
        self._is_closed = False

    def run(self, plans: Iterator[BatchPlan]) -> Iterator[Batch]:
        """The batches of the plans, in order; an error comes where its batch would have come."""
        if self._is_local:  # one thread at a time opens
            return self._begin(LookAhead(map(self._opened, plans), self._fill, self._openers.submit, self._depth))
        # The first batch is alone at the start: others would share its connection and its processor.
        return self._begin(LookAhead(plans, self._open_and_fill, self._openers.submit, self._depth, depth_at_start=1))

    def close(self) -> None:
        """End the threads; batches under way are dropped."""
        self._is_closed = True
        self._openers.close()
        self._decoders.close()
        for parts in list(self._parts.values()):
            parts.drop()
        self._parts.clear()
        self._close_ahead()
        self._close_ahead = _do_nothing  # a `LookAhead` refers to this object

    def _begin(self, ahead: LookAhead[T, Batch]) -> Iterator[Batch]:
        self._close_ahead = ahead.close
        return ahead.results()

    def _opened(self, plan: BatchPlan) -> OpenBatch:
        with self.work.timed(Stage.FETCH):
            return self._assembler.open(plan)

    def _open_and_fill(self, plan: BatchPlan, pending: PendingResult[Batch]) -> None:
        if not self._is_closed:
            self._fill(self._opened(plan), pending)

    def _fill(self, batch: OpenBatch, pending: PendingResult[Batch]) -> None:
        """Fill the batch in this thread if it is filled whole, else on the decoding threads."""
        step = len(batch) if batch.is_filled_whole else -(-len(batch) // self._num_threads)
        starts = range(0, len(batch), step or 1)
        parts = self._parts[pending.number] = _Parts(len(starts))
        for start in starts:
            task = self._filling(batch, pending, range(start, min(start + step, len(batch))), parts)
            if batch.is_filled_whole:
                task()
            else:
                self._decoders.submit(task, pending.number)

    def _filling(
        self, batch: OpenBatch, pending: PendingResult[Batch], rows: range, parts: "_Parts"
    ) -> Callable[[], None]:
        def fill() -> None:
            if self._is_closed or pending.is_over:
                return
            with self.work.timed(Stage.DECODE):
                if parts.end(rows.start, _error_of(lambda: batch.fill(rows.start, rows.stop))):
                    self._parts.pop(pending.number, None)
                    pending.end(parts.outcome(batch.finish))

        return fill


def _do_nothing() -> None:
    """Nothing runs yet."""


def _error_of(task: Callable[[], None]) -> BaseException | None:
    try:
        task()
    except BaseException as error:  # noqa: BLE001 - raised again in the consumer
        return error
    return None


def _result_of(task: Callable[[], T]) -> T | BaseException:
    try:
        return task()
    except BaseException as error:  # noqa: BLE001 - raised again in the consumer
        return error


class _Parts:
    """The parts of a batch, which threads fill in any order; safe for threads.

    The error of a batch is that of its first bad sample, whichever thread found its own first. The frames of an error
    refer to this object, which keeps no error once the batch has its outcome or is dropped: errors hold open files.
    """

    def __init__(self, count: int) -> None:
        self._num_left = count
        self._errors: dict[int, BaseException] = {}
        self._is_dropped = False
        self._lock = threading.Lock()

    def end(self, start: int, error: BaseException | None) -> bool:
        """The part from row `start` has ended. Returns whether it was the last of all parts to end."""
        with self._lock:
            if error is not None and not self._is_dropped:
                self._errors[start] = error
            self._num_left -= 1
            return self._num_left == 0

    def outcome(self, finish: Callable[[], T]) -> T | BaseException:
        """Return the result of `finish`, or the error of the first part that has one. All parts have ended."""
        errors, self._errors = self._errors, {}
        return errors[min(errors)] if errors else _result_of(finish)

    def drop(self) -> None:
        """Drop the errors: nobody waits for the batch, and some of its parts may never begin."""
        with self._lock:
            self._is_dropped = True
            self._errors = {}
