"""Batches made by threads of this process, in order.

Owns the hand-over: a batch's rows are shared out over all threads, and an earlier batch goes before a later one, so the
first batch comes as fast as all cores can make it, and only a few batches are alive at a time. Decoding and reading
free the GIL. A batch that is merely copied is one read, so it stays on the thread that opened it, while another thread
opens the next.
"""

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from headrace.streaming.assemble import Assembler, BatchPlan, Prepared
from headrace.streaming.batch import Batch
from headrace.streaming.parallel import WorkThreads
from headrace.streaming.stats import Stage, Work


@dataclass(slots=True)
class _Pending:
    """A batch under way."""

    number: int
    plan: BatchPlan
    result: "Future[Batch]" = field(default_factory=Future)
    lock: threading.Lock = field(default_factory=threading.Lock)
    num_left: int = 0


class ThreadedBatches:
    """Makes the batches of a run ahead of their use, in this process (`BatchMaker`)."""

    def __init__(self, assembler: Assembler, *, num_threads: int, depth: int, is_local: bool) -> None:
        """Start the threads.

        Args:
            assembler: makes the batches.
            num_threads: threads that decode.
            depth: batches that are under way at a time.
            is_local: whether all shards are local files. Opening those is Python, which one thread at a time does
                fastest; threads that open shards of stores mostly wait.
        """
        self.work = Work()
        self._assembler = assembler
        self._num_threads = num_threads
        self._depth = depth
        self._unopened: deque[_Pending] = deque()
        self._turn = threading.Lock() if is_local else contextlib.nullcontext()
        self._openers = WorkThreads(depth, "open")
        self._decoders = WorkThreads(num_threads, "decode")
        self._closed = False

    def run(self, plans: Iterator[BatchPlan]) -> Iterator[Batch]:
        """The batches of the plans, in order; an error comes where its batch would have come."""
        pending: deque[_Pending] = deque()
        numbers = itertools.count()
        for plan in itertools.islice(plans, self._depth):
            pending.append(self._start(next(numbers), plan))
        while pending:
            first = pending[0]
            batch = first.result.result()
            pending.popleft()
            for plan in itertools.islice(plans, 1):
                pending.append(self._start(next(numbers), plan))
            del first  # the consumer alone keeps the batch
            yield batch
            del batch

    def close(self) -> None:
        """End the threads; batches under way are dropped."""
        self._closed = True
        self._openers.close()
        self._decoders.close()

    def _start(self, number: int, plan: BatchPlan) -> _Pending:
        pending = _Pending(number, plan)
        self._unopened.append(pending)
        self._openers.submit(self._prepare_next)
        return pending

    def _prepare_next(self) -> None:
        with self._turn:  # taken first: batches are opened in order
            pending = self._unopened.popleft()
            prepared = None if self._closed else self._opened(pending)
        if prepared is None:
            return
        if prepared.is_copied:
            pending.num_left = 1
            self._fill(pending, prepared, 0, len(prepared))
            return
        step = -(-len(prepared) // self._num_threads) or 1
        starts = range(0, len(prepared), step)
        pending.num_left = len(starts)
        for start in starts:
            self._decoders.submit(self._filling(pending, prepared, start, step), pending.number)

    def _opened(self, pending: _Pending) -> Prepared | None:
        """The batch with its shards open; None, and the error in its place, if that fails."""
        try:
            with self.work.timed(Stage.FETCH):
                return self._assembler.prepare(pending.plan)
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            pending.result.set_exception(error)
            return None

    def _filling(self, pending: _Pending, prepared: Prepared, start: int, step: int) -> Callable[[], None]:
        return lambda: self._fill(pending, prepared, start, min(start + step, len(prepared)))

    def _fill(self, pending: _Pending, prepared: Prepared, start: int, stop: int) -> None:
        if self._closed or pending.result.done():
            return
        try:
            with self.work.timed(Stage.DECODE):
                self._assembler.fill(prepared, start, stop)
            with pending.lock:
                pending.num_left -= 1
                is_last = pending.num_left == 0
            if is_last:
                pending.result.set_result(self._assembler.finish(prepared))
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            with pending.lock:
                if not pending.result.done():
                    pending.result.set_exception(error)
