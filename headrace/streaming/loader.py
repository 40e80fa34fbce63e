"""Defines `StreamingDataLoader`: batches of a `StreamingDataset`, made ahead by threads or worker processes.

It gives a training loop iteration, the exact length, state and statistics. Threads and workers make the same batches;
their number changes only the speed.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np

from headrace.arguments import flag, function, instance, optional, whole
from headrace.errors import ConfigError, SampleError
from headrace.machine import num_cores
from headrace.streaming import distributed
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.assembler import Assembler
from headrace.streaming.batches.batch import Batch, Sample
from headrace.streaming.batches.pinning import PinnedMemory, pinned, pinned_ahead
from headrace.streaming.batches.stacking import collate
from headrace.streaming.batches.threaded_batches import ThreadedBatches
from headrace.streaming.batches.worker_batches import WorkerBatches, start_context, start_method
from headrace.streaming.concurrency.forks import Home
from headrace.streaming.dataset import StreamingDataset
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.run.other_loaders import warn_of_skipping
from headrace.streaming.settings import ArrayType
from headrace.streaming.stats import ConsumerMeter, LoaderStats, StageSeconds, Traffic

if TYPE_CHECKING:
    from headrace.streaming.run.epochs import EpochRun

_MAX_THREADS = 16
_AHEAD = 2

FITTING: WeakSet[object] = WeakSet()
"""The Trainers of Lightning that train in this process; `lightning_resume` keeps it."""

_ELSEWHERE = {
    "shuffle": "pass it to the StreamingDataset, which decides the order",
    "sampler": "the StreamingDataset decides the order: see its shuffle and streams",
    "batch_sampler": "the StreamingDataset decides the batches: see its batching",
    "drop_last": "pass last_batch='drop' to the StreamingDataset",
    "generator": "pass shuffle_seed to the StreamingDataset; a transform with a parameter rng gets a seeded generator",
    "worker_init_fn": "a transform with a parameter rng gets a seeded generator, and workers seed the global ones",
    "pin_memory_device": "pass pin_memory=True, which pins for the accelerator of this process",
    "timeout": "leave it out: if a worker dies, an error is raised at once",
}
"""`torch.utils.data.DataLoader` arguments that this loader does not accept, and what to use instead."""

_OF_THIS_PROCESS = {"_meter", "_work", "_past_work", "_traffic", "_past_traffic", "_run"}

_WITHOUT_EFFECT = frozenset({"in_order"})  # batches always come in order, which `in_order=False` allows as well


class BatchMaker(Protocol):
    """Makes the batches of a run ahead of time."""

    work: StageSeconds

    def run(self, plans: Iterator[BatchPlan]) -> Iterator[Batch]:
        """The batches of the plans, in order; an error is raised at the place of its batch."""

    def close(self) -> None:
        """End threads or processes, and drop batches under way."""


@dataclass(frozen=True, slots=True)
class WorkerAssembler:
    """Makes the assembler of a worker from the pickled dataset."""

    dataset: StreamingDataset

    def __call__(self, allocator: Allocator) -> tuple[Assembler, Traffic]:
        """See `worker_batches.MakeAssembler`."""
        return self.dataset.epochs.assembler(allocator), self.dataset.reading.traffic


class StreamingDataLoader:
    """Batches of one rank: each iteration is the next epoch, or the rest of the epoch of a loaded state.

    A batch is a dict: `keys` (a sample's `__key__`), `audio`, `num_frames`, … docs/batches.md lists all of its fields,
    with shapes, dtypes and units.
    """

    def __init__(  # noqa: PLR0913 - the parameters of torch's DataLoader
        self,
        dataset: StreamingDataset,
        *,
        batch_size: int | None = None,
        num_workers: int = 0,
        num_threads: int | None = None,
        prefetch_factor: int | None = None,
        pin_memory: bool = False,
        collate_fn: Callable[[Sequence[Sample]], Any] | None = None,
        multiprocessing_context: str | None = None,
        whole_epoch_len: bool | None = None,
        persistent_workers: bool = False,
        **others: object,
    ) -> None:
        """Make a loader. No thread or process starts before the first batch is needed.

        Args:
            dataset: the dataset to read.
            batch_size: if given, must equal that of the dataset, since the order of samples may depend on it.
            num_workers: 0 decodes on threads of this process, which is fastest for FLAC and latents; more for
                transforms in Python that hold the GIL.
            num_threads: decoding threads with `num_workers=0`; None takes the share of the cores of this rank.
            prefetch_factor: batches made ahead, for each worker; None takes 2.
            pin_memory: deliver page-locked tensors, for copies to a GPU with `non_blocking=True`; batches are decoded
                directly into such memory. Without an accelerator it warns and has no effect.
            collate_fn: makes a batch from the dicts of the samples, instead of the default; runs in the consumer.
            multiprocessing_context: "fork", "forkserver" or "spawn"; None forks on Linux if all shards are local,
                else takes a fork server, since the client of a store has threads, which are not forked.
            whole_epoch_len: let `len` count all batches of an epoch even if a state was loaded in its middle. Trainers
                that count batches themselves (Lightning, Hugging Face's Trainer, ignite), and schedules that are
                computed from the length, expect this. False counts the remaining batches. None means True while
                a Trainer of Lightning trains, which loads states itself and would end such an epoch early, else False.
            persistent_workers: part of torch's interface and without effect here: workers start with each iteration,
                which takes milliseconds if they are forked.
            others: arguments of torch's DataLoader that this loader does not have; only empty values are accepted, and
                `in_order`, which has no effect: batches always come in order.

        Raises:
            ConfigError: a value is not allowed; the message says what to use instead.
            TypeError: there is no such argument.
        """
        instance("dataset", dataset, StreamingDataset, "a StreamingDataset")
        if type(dataset).__iter__ is not StreamingDataset.__iter__:
            raise ConfigError(
                f"{type(dataset).__name__}.__iter__ would not be called, since batches are not made of single samples: "
                "pass a function of a sample's dict as transform=…, or use torch's DataLoader"
            )
        _check_others(others)
        flag("persistent_workers", persistent_workers)
        if batch_size not in (None, dataset.batch_size):
            raise ConfigError(f"batch_size={batch_size}, but the dataset has {dataset.batch_size}: set it there, once")
        if collate_fn is not None and dataset.transforms_batches:
            raise ConfigError(
                "collate_fn and batch_transform are both given, and the second works on the batches that the first "
                "replaces: do all of it in one of them"
            )
        ahead = optional(whole)("prefetch_factor", prefetch_factor, least=1) or _AHEAD
        self.dataset = dataset
        self.num_workers = whole("num_workers", num_workers, least=0)
        self.batch_size = dataset.batch_size
        self.pin_memory = flag("pin_memory", pin_memory) and _can_pin()
        self._num_threads = optional(whole)("num_threads", num_threads, least=1) or default_num_threads()
        self._prefetch_factor = ahead
        self._collate = optional(function)("collate_fn", collate_fn)
        # Attributes of torch's loader, from which Accelerate's skip_first_batches makes another loader.
        self.collate_fn = collate_fn or collate
        self.prefetch_factor = ahead if self.num_workers else None
        self._whole_epoch_len = optional(flag)("whole_epoch_len", whole_epoch_len)
        self._context = optional(start_method)("multiprocessing_context", multiprocessing_context)
        self._start_counting()

    def _start_counting(self) -> None:
        self._meter = ConsumerMeter()
        self._work, self._past_work = StageSeconds(), StageSeconds()
        # Of worker processes; see `StreamReaders` for this one.
        self._traffic, self._past_traffic = Traffic(), Traffic()
        self._run: EpochRun | None = None

    def __len__(self) -> int:
        """Batches of the current iteration, or else of the next one; exact, and the same on every rank.

        With `whole_epoch_len`, the batches of its epoch before it are counted as well.
        """
        return self._len_of(self.dataset.epochs.next_run() if self._run is None else self._run)

    @property
    def next_len(self) -> int:
        """The length of the next iteration, also while one has not ended."""
        return self._len_of(self.dataset.epochs.next_run())

    def _len_of(self, run: "EpochRun") -> int:
        is_whole = bool(FITTING) if self._whole_epoch_len is None else self._whole_epoch_len
        return len(run) + (self.dataset.epochs.num_batches_before(run) if is_whole else 0)

    @property
    def stats(self) -> LoaderStats:
        """Waits of the training loop for data, and their reasons; counted over all epochs of this loader."""
        meter, elapsed = self._meter, self._meter.elapsed_seconds
        here, past, now = self.dataset.reading.traffic, self._past_traffic, self._traffic
        counts = here.counts() + past.counts() + now.counts()
        return LoaderStats(
            num_batches=meter.num_batches,
            num_samples=meter.num_samples,
            num_bad_samples=meter.num_bad_samples,
            wait_seconds=meter.wait_seconds,
            wait_share=meter.wait_share,
            fetch_seconds=self._past_work.fetch_seconds + self._work.fetch_seconds,
            decode_seconds=self._past_work.decode_seconds + self._work.decode_seconds,
            **asdict(counts),
            samples_per_second=meter.num_samples / elapsed if elapsed else 0.0,
        )

    def __iter__(self) -> Iterator[Any]:
        """Batches, in order.

        Raises:
            SampleError: a sample cannot be read, or more than `max_bad_samples` were skipped.
            RuntimeError: a worker process died.
            ForkedError: the iteration began in a process that this one was forked from.
        """
        home = Home()
        is_ending = sys.is_finalizing  # at the end of the interpreter, modules are empty and threads are gone
        run = self.dataset.epochs.begin()
        maker = self._maker()
        self._run, self._work = run, maker.work
        prefetcher = self.dataset.epochs.prefetcher(run)
        if prefetcher is not None and self.num_workers:  # the connection is idle while workers start
            prefetcher.begin()
        batches = maker.run(run.plans())
        if self._pins_batches and (self.num_workers or self.dataset.transforms_batches):
            batches = pinned_ahead(batches, PinnedMemory())
        try:
            for index in range(len(run)):
                home.check()
                began = self._meter.begin()
                batch = next(batches)
                self._meter.waited(began)
                self._count(batch)
                shown = self._shown(batch)
                del batch  # only the consumer keeps it, so that its memory can be used again
                self.dataset.epochs.delivered(run, index + 1)
                if prefetcher is not None:
                    prefetcher.delivered(index)
                yield shown
                del shown
        finally:
            if not is_ending() and home.is_here:
                if self._run is run:  # else another iteration has begun meanwhile
                    self._run = None
                self._add_up()
                if prefetcher is not None:
                    prefetcher.close()
                maker.close()
                self.dataset.epochs.close_idle()

    def state_dict(self) -> dict[str, Any]:
        """The position after the batches delivered so far, as readable JSON; what is prefetched does not count."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position at the next iteration. Raises like `StreamingDataset.load_state_dict`."""
        self.dataset.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """See `StreamingDataset.set_epoch`."""
        self.dataset.set_epoch(epoch)

    @property
    def drop_last(self) -> bool:
        """False. Accelerate's `skip_first_batches` asks for it, and then skips batches of a torch DataLoader.

        Raises:
            ConfigError: torch's DataLoader would make other batches of the dataset.
        """
        if not self.dataset.epochs.makes_batches_of_samples:
            raise ConfigError(
                "skip_first_batches (also of Hugging Face's Trainer, without ignore_data_skip=True) makes batches by "
                "torch's DataLoader, and these would differ in rows or fields: FrameBudget, batch sizes of streams, "
                "windows, rasters, pad, valid_frames, batch_transform and output='numpy' need this loader; resume by "
                "load_state_dict instead"
            )
        if self.dataset.epochs.is_in_mid_epoch:
            warn_of_skipping()
        return False

    @property
    def is_running(self) -> bool:
        """Whether an iteration has begun and has not ended."""
        return self._run is not None

    @property
    def batch_sampler(self) -> SimpleNamespace:
        """An object whose sampler has `set_epoch`, by which Lightning names the epoch."""
        return SimpleNamespace(sampler=self, batch_size=self.batch_size)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the counters, and without an iteration that has begun: the copy begins with the next epoch."""
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_counting()

    def _maker(self) -> BatchMaker:
        if self.num_workers == 0:
            return ThreadedBatches(
                self.dataset.epochs.assembler(PinnedMemory() if self._pins_batches else None),
                num_threads=self._num_threads,
                depth=self._prefetch_factor + 1,
                is_local=self.dataset.reading.is_local,
            )
        context = start_context(self._context, is_local=self.dataset.reading.is_local)
        maker = WorkerBatches(
            WorkerAssembler(self.dataset), context, num_workers=self.num_workers, depth=self._prefetch_factor
        )
        self._traffic = maker.traffic
        return maker

    def _add_up(self) -> None:
        """Add the counters of a finished iteration to those of the iterations before."""
        for stage, seconds in self._work.seconds().items():
            self._past_work.add(stage, seconds)
        self._past_traffic.add(self._traffic.counts())
        self._work, self._traffic = StageSeconds(), Traffic()

    def _count(self, batch: Batch) -> None:
        self._meter.delivered(len(batch.keys) - int(np.count_nonzero(batch.is_padding)))
        self._meter.num_bad_samples += len(batch.errors)
        self._meter.warn_once(self._work)
        if self._meter.num_bad_samples > self.dataset.max_bad_samples:
            raise SampleError(
                f"{self._meter.num_bad_samples} samples could not be read, more than max_bad_samples="
                f"{self.dataset.max_bad_samples}; the last: {batch.errors[-1]}"
            )

    @property
    def _pins_batches(self) -> bool:
        """Whether batches are made in page-locked memory."""
        return self.pin_memory and self._collate is None and self.dataset.output is ArrayType.TORCH

    def _shown(self, batch: Batch) -> Any:  # noqa: ANN401 - the result of a collate_fn
        if self._collate is not None:
            shown = self._collate(batch.samples(self.dataset.output))
            return pinned(shown) if self.pin_memory else shown
        if batch.changed is not None:
            return batch.changed
        shown = batch.to_dict(self.dataset.output)
        return shown | {name: pinned(shown[name]) for name in batch.arrays()} if self._pins_batches else shown


def _can_pin() -> bool:
    """Whether there is an accelerator; if not, warn, as torch's DataLoader does."""
    import torch

    if torch.accelerator.is_available():
        return True
    warnings.warn("pin_memory=True has no effect: this machine has no accelerator", stacklevel=3)
    return False


def _check_others(others: Mapping[str, object]) -> None:
    """Reject arguments that only torch's loader has, except empty values."""
    for name, value in others.items():
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _ELSEWHERE:
            raise TypeError(f"StreamingDataLoader() got an unexpected keyword argument {name!r}")
        if value:
            raise ConfigError(f"{name}={value!r} is not an argument of StreamingDataLoader: {_ELSEWHERE[name]}")


def default_num_threads() -> int:
    """The share of this rank of the cores that this process may use."""
    return max(1, min(_MAX_THREADS, num_cores() // distributed.local_world_size()))
