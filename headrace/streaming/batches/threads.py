"""Batches made by threads of this process, in order.

Owns the hand-over: a batch's rows are shared out over all threads, and an earlier batch goes before a later one, so the
first batch comes as fast as all cores can make it, and only a few batches are alive at a time. Decoding and reading
free the GIL. A batch that is merely copied is one read, so it stays on the thread that begins it, while another thread
begins the next, and one more is under way for each of them; several are opened at a time. The consumer does nothing but
take batches: whatever it did would wait for the GIL, and the batches for it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from headrace.streaming.batches.ahead import Ahead, Due
from headrace.streaming.batches.assemble import Assembler
from headrace.streaming.batches.batch import Batch
from headrace.streaming.batches.prepared import Prepared
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.parallel import WorkThreads
from headrace.streaming.stats import Stage, Work

_ROWS_TOGETHER = 1024  # of batches that are opened together


@dataclass(slots=True)
class _Pending:
    """A batch under way.

    Attributes:
        number: in the run; an earlier batch is worked on first.
        due: its plan, or the batch with its shards open if it was opened with others, or why it could not be planned;
            None from then on when somebody works on it.
        lock: guards what follows.
        num_left: parts of it that are not filled yet.
        is_over: whether it is made, or failed.
        outcome: the batch or what went wrong, once.
    """

    number: int
    due: Due | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    num_left: int = 0
    is_over: bool = False
    outcome: "SimpleQueue[Batch | BaseException]" = field(default_factory=SimpleQueue)

    def end(self, outcome: Batch | BaseException) -> None:
        """It is made, or failed; the first call counts."""
        with self.lock:
            if not self.is_over:
                self.is_over = True
                self.outcome.put(outcome)

    def result(self) -> Batch:
        """Wait for it, once. Raises why it failed."""
        outcome = self.outcome.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


class ThreadedBatches:
    """Makes the batches of a run ahead of their use, in this process (`BatchMaker`)."""

    def __init__(self, assembler: Assembler, *, num_threads: int, depth: int, is_local: bool) -> None:
        """Nothing starts before it is run.

        Args:
            assembler: makes the batches.
            num_threads: threads that decode.
            depth: batches that are under way at a time, one that is worked on among them.
            is_local: whether all shards are local files. Opening those is Python, which one thread at a time does
                fastest; threads that open shards of stores mostly wait.
        """
        self.work = Work()
        self._assembler = assembler
        self._num_threads = num_threads
        self._depth = depth
        self._is_local = is_local
        self._num_openers = min(num_threads, depth) if is_local else depth
        self._num_more = 0
        self._turn = threading.Lock()
        self._begun: SimpleQueue[_Pending | None] = SimpleQueue()
        self._num_begun = 0
        self._openers = WorkThreads(self._num_openers, "open")
        self._decoders = WorkThreads(num_threads, "decode")
        self._closed = False

    def run(self, plans: Iterator[BatchPlan]) -> Iterator[Batch]:
        """The batches of the plans, in order; an error comes where its batch would have come."""
        rows_together = _ROWS_TOGETHER if self._is_local else 0
        ahead = Ahead(plans, self._together, rows_together)
        self._num_more = self._num_openers - 1 if self._is_local else 0
        for _ in range(self._depth):
            self._openers.submit(lambda: self._begin_next(ahead))
        while (pending := self._begun.get()) is not None:
            batch = pending.result()
            self._openers.submit(lambda: self._begin_next(ahead))
            yield batch
            del batch  # the consumer alone keeps it

    def close(self) -> None:
        """End the threads; batches under way are dropped."""
        self._closed = True
        self._openers.close()
        self._decoders.close()

    def _together(self, plans: Sequence[BatchPlan]) -> Sequence[Prepared] | None:
        if self._closed:
            return None
        try:
            with self.work.timed(Stage.FETCH):
                return self._assembler.prepare_copied(plans)
        except Exception:  # noqa: BLE001 - it comes again when the batch at fault is opened alone
            return None

    def _begin_next(self, ahead: Ahead) -> None:
        """Plan the next batch, open it, and have it filled."""
        if self._is_local:
            ahead.open_some()
        with self._turn:
            pending = self._taken(ahead)
            prepared = self._opened(pending) if pending and self._is_local else None
        if pending and not self._is_local:
            prepared = self._opened(pending)
        if pending is None or prepared is None:
            return
        if prepared.is_copied:
            self._widen(ahead)
            pending.num_left = 1
            self._fill(pending, prepared, 0, len(prepared))
            return
        step = -(-len(prepared) // self._num_threads) or 1
        starts = range(0, len(prepared), step)
        pending.num_left = len(starts)
        try:
            for start in starts:
                self._decoders.submit(self._filling(pending, prepared, start, step), pending.number)
        except RuntimeError as error:  # no thread to be had
            pending.end(error)

    def _widen(self, ahead: Ahead) -> None:
        """Each thread works on a batch of its own: have as many more under way; none waits for the consumer."""
        if self._num_more:
            with self._turn:
                num_more, self._num_more = self._num_more, 0
            for _ in range(num_more):
                self._openers.submit(lambda: self._begin_next(ahead))

    def _taken(self, ahead: Ahead) -> _Pending | None:
        """The next batch, for which the consumer now waits; None after the last."""
        due = ahead.take()
        pending = None if due is None else _Pending(self._num_begun, due)
        self._num_begun += 1
        self._begun.put(pending)
        return pending

    def _opened(self, pending: _Pending) -> Prepared | None:
        """The batch with its shards open; None, and the error in its place, if that fails."""
        due, pending.due = pending.due, None  # the consumer alone keeps it
        if self._closed or due is None:
            return None
        if isinstance(due, BaseException):
            pending.end(due)
            return None
        if not isinstance(due, BatchPlan):
            return due
        try:
            with self.work.timed(Stage.FETCH):
                return self._assembler.prepare(due)
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            pending.end(error)
            return None

    def _filling(self, pending: _Pending, prepared: Prepared, start: int, step: int) -> Callable[[], None]:
        return lambda: self._fill(pending, prepared, start, min(start + step, len(prepared)))

    def _fill(self, pending: _Pending, prepared: Prepared, start: int, stop: int) -> None:
        if self._closed or pending.is_over:
            return
        try:
            with self.work.timed(Stage.DECODE):
                prepared.fill(start, stop)
            with pending.lock:
                pending.num_left -= 1
                is_last = pending.num_left == 0
            if is_last:
                pending.end(prepared.finish())
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            pending.end(error)
