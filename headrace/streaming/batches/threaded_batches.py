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
from headrace.streaming.lookahead import LookAhead, PendingResult
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.parallel import WorkThreads
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
        self._is_closed = False

    def run(self, plans: Iterator[BatchPlan]) -> Iterator[Batch]:
        """The batches of the plans, in order; an error comes where its batch would have come."""
        if self._is_local:  # one thread at a time opens
            return self._begin(LookAhead(map(self._opened, plans), self._fill, self._openers.submit, self._depth))
        return self._begin(LookAhead(plans, self._open_and_fill, self._openers.submit, self._depth))

    def close(self) -> None:
        """End the threads; batches under way are dropped."""
        self._is_closed = True
        self._openers.close()
        self._decoders.close()
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
        countdown = _Countdown(len(starts))
        for start in starts:
            task = self._filling(batch, pending, range(start, min(start + step, len(batch))), countdown)
            if batch.is_filled_whole:
                task()
            else:
                self._decoders.submit(task, pending.number)

    def _filling(
        self, batch: OpenBatch, pending: PendingResult[Batch], rows: range, countdown: "_Countdown"
    ) -> Callable[[], None]:
        def fill() -> None:
            if self._is_closed or pending.is_over:
                return
            try:
                made = None
                with self.work.timed(Stage.DECODE):
                    batch.fill(rows.start, rows.stop)
                    if countdown.is_last():
                        made = batch.finish()
                if made is not None:
                    pending.end(made)
            except BaseException as error:  # noqa: BLE001 - raised again in the consumer
                pending.end(error)

        return fill


def _do_nothing() -> None:
    """Nothing runs yet."""


class _Countdown:
    """Counts the parts of a batch that are not filled yet; safe for threads."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()

    def is_last(self) -> bool:
        """Count one part as filled. Returns whether it was the last."""
        with self._lock:
            self._count -= 1
            return self._count == 0
