"""Makes batches in worker processes, in order, and passes them to the consumer in shared memory.

The consumer sends each worker the plans of the batches to make; workers keep no position, so they make the same batches
as threads do. A batch's arrays are decoded into shared memory (`slots`) and are neither copied nor sent. A worker ends
when its pipe to the consumer is closed, also if the consumer was killed.
"""

import contextlib
import gc
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from headrace.errors import ConfigError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.assembler import Assembler
from headrace.streaming.batches.batch import Batch
from headrace.streaming.batches.batch_transform import with_tensors, without_tensors
from headrace.streaming.batches.slots import NewSlot, SlotAllocator, SlotViews
from headrace.streaming.concurrency.descriptors import receive_descriptor, send_descriptor
from headrace.streaming.concurrency.fork_server import prepare_fork_server, take_over
from headrace.streaming.concurrency.forks import Home
from headrace.streaming.concurrency.lookahead import begun_ahead
from headrace.streaming.concurrency.parallel import WorkThreads
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.bijection import mix
from headrace.streaming.stats import Stage, StageSeconds, Traffic, TrafficCounts

if TYPE_CHECKING:
    Connection: TypeAlias = connection.Connection[object, object]
else:
    Connection = connection.Connection  # has no parameters at run time
MakeAssembler = Callable[[Allocator], tuple[Assembler, Traffic]]
_END_SECONDS = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class _Order:
    """A message to a worker: a batch to make, and slots that are free again."""

    plan: BatchPlan
    returned: list[int]


@dataclass(frozen=True, slots=True)
class _Made:
    """A batch without its large arrays, which are the first bytes of `slots`, in turn."""

    batch: bytes
    slots: list[tuple[int, int]]
    unseen: list[NewSlot]
    seconds: dict[Stage, float]
    traffic: TrafficCounts


@dataclass(frozen=True, slots=True)
class _Failed:
    """The error that a worker sends instead of a batch."""

    error: bytes
    trace: str


@dataclass(slots=True)
class _Worker:
    """A worker as the consumer sees it."""

    number: int
    process: BaseProcess
    pipe: Connection
    is_forked: bool
    has_begun: bool = False
    views: SlotViews = field(default_factory=SlotViews)


class WorkerBatches:
    """Makes the batches of a run ahead of their use, in processes (`BatchMaker`)."""

    def __init__(self, make: MakeAssembler, context: BaseContext, *, num_workers: int, depth: int) -> None:
        """Start the workers.

        Args:
            make: makes each worker's assembler; is sent to the worker.
            context: how processes are started.
            num_workers: number of processes.
            depth: batches under way at a time, for each worker.
        """
        self.work = StageSeconds()
        self.traffic = Traffic()
        self._depth = depth
        self._workers: list[_Worker] = []
        # A separate thread sends orders: a worker that is sending a batch reads no orders, so if the consumer's thread
        # waited to send one, it could not receive the batch.
        self._orders = WorkThreads(1, "orders")
        # An iterator may still exist when the interpreter ends.
        self._at_exit = weakref.finalize(self, _end, self._workers, self._orders, Home())
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
        turns = itertools.cycle(self._workers)
        return begun_ahead(plans, lambda plan: self._begun(next(turns), plan), self._depth * len(self._workers))

    def close(self) -> None:
        """End the workers at once; batches under way are dropped."""
        self._at_exit()

    def _begun(self, worker: _Worker, plan: BatchPlan) -> Callable[[], Batch]:
        self._order(worker, plan)
        return lambda: self._taken(worker)

    def _order(self, worker: _Worker, plan: BatchPlan) -> None:
        """Have a plan sent to a worker."""
        order = _Order(plan, worker.views.returned())
        self._orders.submit(lambda: _send(worker.pipe, order))

    def _taken(self, worker: _Worker) -> Batch:
        """Wait for the next batch of a worker."""
        connection.wait([worker.pipe, worker.process.sentinel])
        if not worker.pipe.poll():
            raise _death(worker)
        try:
            message = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise _death(worker) from None
        worker.has_begun = True
        if isinstance(message, _Failed):
            raise _failure(worker, message)
        assert isinstance(message, _Made)
        for slot in message.unseen:
            try:
                worker.views.add(slot, receive_descriptor(worker.pipe))
            except (EOFError, OSError):
                raise _death(worker) from None
        for stage, seconds in message.seconds.items():
            self.work.add(stage, seconds)
        self.traffic.add(message.traffic)
        leases = [worker.views.lease(*slot) for slot in message.slots]
        batch: Batch = pickle.loads(message.batch, buffers=leases)  # noqa: S301 - from our own worker
        batch.changed = with_tensors(batch.changed)
        return batch


def start_method(name: str, value: object) -> str:
    """A start method for processes that this system has. Raises `ConfigError` for any other value."""
    known = multiprocessing.get_all_start_methods()
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{name} is {value!r}: expected one of {', '.join(known)}")
    return value


def start_context(name: str | None, *, is_local: bool) -> BaseContext:
    """Context that starts workers: forked on Linux if all shards are local; else from a fork server.

    A process that has used an object store has threads that do not survive a fork. A forked worker works nevertheless
    (`forked_obstore`), but a worker of a fork server has neither these threads nor locks that they held. On macOS the
    system's own libraries do not survive a fork (Python's bpo-33725).
    """
    can_fork = is_local and sys.platform == "linux"
    method = name or ("fork" if can_fork else "forkserver")
    if method == "forkserver":
        prepare_fork_server()
    return multiprocessing.get_context(method)


def _start(context: BaseContext, make: MakeAssembler, number: int, others: Sequence[Connection]) -> _Worker:
    ours, theirs = context.Pipe()
    is_forked = context.get_start_method() == "fork"
    # A forked worker inherits the consumer's ends of all pipes. While it holds one open, that pipe is never closed.
    inherited = [*others, ours] if is_forked else []
    arguments = (make, theirs, inherited, dict(os.environ))
    process = context.Process(target=_work, args=arguments, name=f"headrace-worker-{number}", daemon=True)  # type: ignore[attr-defined]
    with _signals_held_back() if is_forked else contextlib.nullcontext():
        process.start()
    theirs.close()
    return _Worker(number, process, ours, is_forked)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Block signals while a process is forked, until it has its own handlers (`_own_signals`).

    If a handler of the consumer raises, as Dagster's for SIGTERM does, it would raise inside `fork`: the worker would
    not end, or would return from `fork` and go on as a second consumer.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _own_signals() -> None:
    """Ignore Ctrl-C, which the consumer handles by ending its workers; let SIGTERM end this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _send(pipe: Connection, order: _Order) -> None:
    """Send an order. If the worker is gone, waiting for its batch raises the error."""
    with contextlib.suppress(OSError):
        pipe.send(order)


def _end(workers: list[_Worker], orders: WorkThreads, home: Home) -> None:
    """End workers at once; in a process that was forked from theirs, do nothing."""
    if not home.is_here:
        return
    for worker in workers:
        worker.process.terminate()
    orders.close(_END_SECONDS)  # the pipes are no longer read, but the workers are gone, so it does not block
    for worker in workers:
        worker.pipe.close()
        worker.process.join(_END_SECONDS)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join(_END_SECONDS)
    workers.clear()


def _failure(worker: _Worker, message: _Failed) -> BaseException:
    error: BaseException = pickle.loads(message.error)  # noqa: S301 - from our own worker
    error.add_note(f"in worker process {worker.number}:\n{message.trace}")
    return error


_NOT_STARTED = (
    " before it could start; it printed the reason. Workers that are not forked import the script that starts them: "
    'put its code under `if __name__ == "__main__":`, or use num_workers=0'
)
"""Advice if a worker ends before its first batch, as Python ends it in a script without this line."""


def _death(worker: _Worker) -> RuntimeError:
    worker.process.join(_END_SECONDS)
    code = worker.process.exitcode
    how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with {code}"
    hint = "; was the machine out of memory?" if code == -signal.SIGKILL else ""
    if code == 1 and not worker.is_forked and not worker.has_begun:
        hint = _NOT_STARTED
    return RuntimeError(f"worker process {worker.number} (pid {worker.process.pid}) {how}{hint}")


def _work(
    make: MakeAssembler, pipe: Connection, inherited: Sequence[Connection], environment: Mapping[str, str]
) -> None:
    """Main function of a worker: make the batches that are ordered until the consumer closes the pipe."""
    for end in inherited:
        end.close()
    _own_signals()
    take_over(environment)  # of a fork server, which has that of when its first child was started
    gc.freeze()  # what was imported before the fork is never searched for garbage, which would also copy its pages
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
    """Seed the global random generators from the batch: otherwise all forked workers would draw the same numbers."""
    seed = int(mix(plan.epoch, *plan.positions[:1])) & 0xFFFFFFFF
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator of transforms without a parameter `rng`
    if "torch" in sys.modules:
        import torch

        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` spends 0.3 ms on devices that are not there
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(seed)


def _made(assembler: Assembler, traffic: Traffic, allocator: SlotAllocator, plan: BatchPlan) -> _Made | _Failed:
    work, before = StageSeconds(), traffic.counts()
    try:
        with work.timed(Stage.FETCH):
            opened = assembler.open(plan)
        with work.timed(Stage.DECODE):
            opened.fill(0, len(opened))
            batch = opened.finish()
        batch.changed = without_tensors(batch.changed)
        slots: list[tuple[int, int]] = []
        blob = pickle.dumps(batch, protocol=5, buffer_callback=lambda buffer: _in_message(buffer, allocator, slots))
    except Exception as error:  # noqa: BLE001 - raised again in the consumer
        return _Failed(_pickled(error), traceback.format_exc())
    seconds = {Stage.FETCH: work.fetch_seconds, Stage.DECODE: work.decode_seconds}
    return _Made(blob, slots, [], seconds, traffic.counts() - before)


def _in_message(buffer: pickle.PickleBuffer, allocator: SlotAllocator, slots: list[tuple[int, int]]) -> bool:
    """Whether a buffer is sent in the message; a buffer in a slot is not, and its slot is added to `slots`."""
    raw = buffer.raw()
    number = allocator.slot_of(raw)
    if number is None or any(number == taken for taken, _ in slots):  # each slot is returned once
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
        send_descriptor(pipe, descriptor)
        os.close(descriptor)


def _pickled(error: Exception) -> bytes:
    try:
        blob = pickle.dumps(error)
        pickle.loads(blob)  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - some libraries' errors cannot be pickled; their text can
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return blob
