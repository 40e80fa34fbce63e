"""Batches made by worker processes, in order, handed over in shared memory.

Owns the processes and the messages. Workers are told what to make and hold no position, so they give the same batches
as threads do. A batch's arrays are decoded into shared memory (`slots`) and never copied or sent. A worker ends when
its consumer hangs up, also when that was killed.
"""

import contextlib
import multiprocessing
import os
import pickle
import random
import signal
import sys
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, reduction
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import TypeAlias

import numpy as np

from headrace.errors import ConfigError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.assemble import Assembler
from headrace.streaming.batches.batch import Batch
from headrace.streaming.batches.slots import NewSlot, SlotAllocator, SlotViews
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.bijection import mix
from headrace.streaming.parallel import WorkThreads
from headrace.streaming.stats import Stage, Traffic, Work

Connection: TypeAlias = "connection.Connection[object, object]"
MakeAssembler = Callable[[Allocator], tuple[Assembler, Traffic]]
_END_SECONDS = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class _Order:
    """What a worker is told: a batch to make, and slots that are free again."""

    plan: BatchPlan
    returned: list[int]


@dataclass(frozen=True, slots=True)
class _Made:
    """A batch, its large arrays left out: they are the first bytes of `slots`, in turn."""

    batch: bytes
    slots: list[tuple[int, int]]
    unseen: list[NewSlot]
    seconds: dict[Stage, float]
    traffic: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Failed:
    """What went wrong instead of a batch."""

    error: bytes
    trace: str


@dataclass(slots=True)
class _Worker:
    """The consumer's end of a worker."""

    number: int
    process: BaseProcess
    pipe: Connection
    views: SlotViews = field(default_factory=SlotViews)


class WorkerBatches:
    """Makes the batches of a run ahead of their use, in processes (`BatchMaker`)."""

    def __init__(self, make: MakeAssembler, context: BaseContext, *, num_workers: int, depth: int) -> None:
        """Start the workers.

        Args:
            make: makes each worker's assembler; travels to it.
            context: how processes are started.
            num_workers: processes.
            depth: batches under way at a time, for each.
        """
        self.work = Work()
        self.traffic = Traffic()
        self._depth = depth
        self._workers: list[_Worker] = []
        # A thread of their own sends orders: a worker that is handing over a batch takes none, and who waited for it
        # could not take the batch.
        self._orders = WorkThreads(1, "orders")
        # An iterator may be left to the interpreter's end.
        self._at_exit = weakref.finalize(self, _end, self._workers, self._orders)
        try:
            for number in range(num_workers):
                self._workers.append(_start(context, make, number, [worker.pipe for worker in self._workers]))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.close()
            raise ConfigError(
                f"the dataset cannot travel to worker processes ({error}): make transform a function of a module, or "
                "use num_workers=0"
            ) from error

    def run(self, plans: Iterator[BatchPlan]) -> Iterator[Batch]:
        """The batches of the plans, in order; an error comes where its batch would have come.

        Raises:
            RuntimeError: a worker died.
        """
        queue: deque[_Worker] = deque()
        turns = self._turns()
        for plan in plans:
            worker = next(turns)
            self._tell(worker, plan)
            queue.append(worker)
            if len(queue) == self._depth * len(self._workers):
                yield self._taken(queue.popleft())
        while queue:
            yield self._taken(queue.popleft())

    def close(self) -> None:
        """End the workers at once; batches under way are dropped."""
        self._at_exit()

    def _turns(self) -> Iterator[_Worker]:
        while True:
            yield from self._workers

    def _tell(self, worker: _Worker, plan: BatchPlan) -> None:
        order = _Order(plan, worker.views.returned())
        self._orders.submit(lambda: _send(worker.pipe, order))

    def _taken(self, worker: _Worker) -> Batch:
        connection.wait([worker.pipe, worker.process.sentinel])
        if not worker.pipe.poll():
            raise _death(worker)
        try:
            message = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise _death(worker) from None
        if isinstance(message, _Failed):
            error: BaseException = pickle.loads(message.error)  # noqa: S301 - from our own worker
            error.add_note(f"in worker process {worker.number}:\n{message.trace}")
            raise error
        assert isinstance(message, _Made)
        for slot in message.unseen:
            try:
                worker.views.add(slot, reduction.recv_handle(worker.pipe))
            except (EOFError, OSError):
                raise _death(worker) from None
        for stage, seconds in message.seconds.items():
            self.work.add(stage, seconds)
        self.traffic.add(*message.traffic)
        leases = [worker.views.lease(*slot) for slot in message.slots]
        batch: Batch = pickle.loads(message.batch, buffers=leases)  # noqa: S301 - from our own worker
        return batch


def start_method(name: str, value: object) -> str:
    """The name of a way to start processes that this system has. Raises `ConfigError` otherwise."""
    known = multiprocessing.get_all_start_methods()
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{name} is {value!r}: expected one of {', '.join(known)}")
    return value


def start_context(name: str | None, *, is_local: bool) -> BaseContext:
    """How workers are started: forked on Linux where all shards are local; else from a fork server.

    A process that has talked to an object store holds threads that do not survive a fork. A forked worker works all the
    same (`forked_obstore`), but a fork server hands it neither them nor what they had locked. On macOS the system's own
    libraries do not survive one (Python's bpo-33725).
    """
    can_fork = is_local and sys.platform == "linux"
    return multiprocessing.get_context(name or ("fork" if can_fork else "forkserver"))


def _start(context: BaseContext, make: MakeAssembler, number: int, others: Sequence[Connection]) -> _Worker:
    ours, theirs = context.Pipe()
    # A forked worker inherits the consumer's ends: while it holds one open, no worker would hear the consumer hang up.
    inherited = [*others, ours] if context.get_start_method() == "fork" else []
    arguments = (make, theirs, inherited)
    process = context.Process(target=_work, args=arguments, name=f"headrace-worker-{number}", daemon=True)  # type: ignore[attr-defined]
    with _signals_held_back() if context.get_start_method() == "fork" else contextlib.nullcontext():
        process.start()
    theirs.close()
    return _Worker(number, process, ours)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Let no signal reach a process that is forked meanwhile until it has its own handlers (`_own_signals`).

    A handler of the consumer's that raises, as Dagster's for SIGTERM does, would raise inside of `fork`: the worker
    would live on, or leave `fork` as a second consumer.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _own_signals() -> None:
    """Ctrl-C is the consumer's to handle, which ends its workers; SIGTERM ends this one, whatever it has inherited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _send(pipe: Connection, order: _Order) -> None:
    """Tell a worker. Of one that is gone, who waits for its batch finds out."""
    with contextlib.suppress(OSError):
        pipe.send(order)


def _end(workers: list[_Worker], orders: WorkThreads) -> None:
    """End workers at once."""
    for worker in workers:
        worker.process.terminate()
    orders.close(_END_SECONDS)  # nobody takes what it sends any more, so it is not held up
    for worker in workers:
        worker.pipe.close()
        worker.process.join(_END_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join(_END_SECONDS)
    workers.clear()


def _death(worker: _Worker) -> RuntimeError:
    worker.process.join(_END_SECONDS)
    code = worker.process.exitcode
    how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with {code}"
    hint = "; was the machine out of memory?" if code == -signal.SIGKILL else ""
    return RuntimeError(f"worker process {worker.number} (pid {worker.process.pid}) {how}{hint}")


def _work(make: MakeAssembler, pipe: Connection, inherited: Sequence[Connection]) -> None:
    """A worker's life: make what is told until the consumer hangs up."""
    for end in inherited:
        end.close()
    _own_signals()
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
    allocator = SlotAllocator()
    assembler, traffic = make(allocator)
    with contextlib.suppress(EOFError, OSError):
        while True:
            order = pipe.recv()
            assert isinstance(order, _Order)
            allocator.take_back(order.returned)
            _seed(order.plan)
            _answer(pipe, allocator, _made(assembler, traffic, allocator, order.plan))


def _seed(plan: BatchPlan) -> None:
    """Seed what random transforms draw from, from the batch: forked workers would all draw the same numbers."""
    seed = int(mix(plan.epoch, *plan.positions[:1])) & 0xFFFFFFFF
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator that transforms without one of their own use
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(seed)


def _made(assembler: Assembler, traffic: Traffic, allocator: SlotAllocator, plan: BatchPlan) -> _Made | _Failed:
    work, before = Work(), traffic.counts()
    try:
        with work.timed(Stage.FETCH):
            prepared = assembler.prepare(plan)
        with work.timed(Stage.DECODE):
            prepared.fill(0, len(prepared))
            batch = prepared.finish()
        slots: list[tuple[int, int]] = []
        blob = pickle.dumps(batch, protocol=5, buffer_callback=lambda buffer: _in_message(buffer, allocator, slots))
    except Exception as error:  # noqa: BLE001 - raised again in the consumer
        return _Failed(_pickled(error), traceback.format_exc())
    seconds = {Stage.FETCH: work.fetch_seconds, Stage.DECODE: work.decode_seconds}
    hits, misses, fetched = (now - then for now, then in zip(traffic.counts(), before, strict=True))
    return _Made(blob, slots, [], seconds, (hits, misses, fetched))


def _in_message(buffer: pickle.PickleBuffer, allocator: SlotAllocator, slots: list[tuple[int, int]]) -> bool:
    """Whether a buffer travels in the message: those in slots do not."""
    raw = buffer.raw()
    number = allocator.slot_of(raw)
    if number is None:
        return True
    slots.append((number, len(raw)))
    return False


def _answer(pipe: Connection, allocator: SlotAllocator, message: _Made | _Failed) -> None:
    if isinstance(message, _Failed):
        allocator.sent(())
        pipe.send(message)
        return
    allocator.sent(number for number, _ in message.slots)
    unseen = allocator.unseen()
    pipe.send(_Made(message.batch, message.slots, [slot for slot, _ in unseen], message.seconds, message.traffic))
    for _, descriptor in unseen:
        reduction.send_handle(pipe, descriptor, None)
        os.close(descriptor)


def _pickled(error: Exception) -> bytes:
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - some libraries' errors do not travel; their words do
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return blob
