"""Runs through the epochs of a dataset in this process: what loaders and the dataset's own loop are made of.

`progress` counts the position, `planner` makes the orders, `opening` has the streams, and `batches` makes samples. Here
they are put together. Arguments of users are checked in `dataset`.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import torch.utils.data  # noqa: TID253 - its workers are known by it

from headrace.errors import ConfigError, SampleError
from headrace.streaming import distributed
from headrace.streaming.batches.arena import Allocator, Arena
from headrace.streaming.batches.assembler import Assembler
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.batches.stacking import padding_like
from headrace.streaming.concurrency.forks import Home
from headrace.streaming.opened.opening import OpenStreams
from headrace.streaming.order.state import OrderState
from headrace.streaming.output_fields import with_padding
from headrace.streaming.run.epochs import EpochRun, WorkerShare
from headrace.streaming.run.next_uses import FolderUses, RunOrders
from headrace.streaming.run.planner import Planner
from headrace.streaming.run.prefetch import Prefetcher
from headrace.streaming.run.progress import EpochProgress
from headrace.streaming.samples.stored_sample import BatchRow
from headrace.streaming.settings import ArrayType, OnBadSample, SampleSettings
from headrace.streaming.world import World


class EpochReader:
    """The epochs of a dataset, one after the other. Travels to workers with the dataset."""

    def __init__(
        self, planner: Planner, streams: OpenStreams, world: World, samples: SampleSettings, predownload: int | None
    ) -> None:
        """Begin before epoch 0. Nothing is read.

        Args:
            planner: makes the orders.
            streams: the opened streams.
            world: this rank.
            samples: how samples are processed.
            predownload: samples per rank to download ahead; None takes a shuffle block.
        """
        self._planner = planner
        self._streams = streams
        self._world = world
        self._samples = samples
        self._predownload = predownload
        self._num_bad = self._num_begun = 0
        self._name_on_ranks: str | None = None  # None where ranks are not compared
        self.progress = EpochProgress(planner)

    def next_run(self) -> EpochRun:
        """The next epoch, or the rest of the epoch of a loaded state; the run is not started."""
        return self.progress.next_run()

    @property
    def is_in_mid_epoch(self) -> bool:
        """Whether the next run continues an epoch in its middle."""
        waiting = self.progress.waiting
        return waiting is not None and waiting.sample_in_epoch > 0

    @property
    def makes_batches_of_samples(self) -> bool:
        """Whether each batch is the `collate` of as many samples, as torch's DataLoader makes it."""
        made, config = self._processing(), self._samples
        is_more = made.pads_fields or made.rasters or made.has_windows or config.valid_frames or config.batch_transform
        return self._planner.has_even_batches and config.output is ArrayType.TORCH and not is_more

    def num_batches_before(self, run: EpochRun) -> int:
        """Batches of one rank before a run in its epoch: 0 unless a state was loaded."""
        return self.progress.num_batches_before(run)

    def compare_ranks(self) -> None:
        """Compare the orders of the ranks, and from now on the places where they begin. All ranks must call this.

        Raises:
            ConfigError: see `Planner.check_ranks`.
        """
        self._name_on_ranks = self._planner.check_ranks()

    def begin(self) -> EpochRun:
        """Start the next epoch, or the rest of the epoch of a loaded state.

        Raises:
            StateError: another rank has begun elsewhere.
        """
        if (state := self.progress.loaded_elsewhere()) is not None:
            self.load(state)
        is_main = torch.utils.data.get_worker_info() is None
        if is_main and self._streams.agree(self._world, self.progress.waiting):
            self.compare_ranks()
        if is_main and self._name_on_ranks is not None and distributed.is_up():
            name = f"{self._name_on_ranks}/{self._num_begun}"
            self._planner.check_beginning(name, self.progress.next_order())
            self._num_begun += 1  # not of a beginning that failed, after which a right state may be loaded
        run = self.progress.begin()
        if not len(run) and not run.order.start:
            why = (
                f"the epoch's {run.order.num_samples} samples fill no global batch, and last_batch='drop' leaves them "
                "out; lower batch_size, or use last_batch='pad'"
                if run.order.num_samples
                else "the streams have no samples; look at split, view and where, and whether every sample is shorter "
                "than a window, which last_window='drop' leaves out"
            )
            warnings.warn(f"no batch will come: {why}", stacklevel=2)
        return run

    def delivered(self, run: EpochRun, num_batches: int) -> None:
        """Record that the loader delivered this many batches of a run."""
        self.progress.delivered(run, num_batches)

    def close_idle(self) -> None:
        """Close the files that a finished iteration has left open."""
        self._streams.close_idle()

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state, see `StreamingDataset.load_state_dict`.

        Raises:
            StateError: something that the order depends on differs, or a snapshot is gone.
        """
        state = OrderState.from_json(saved)
        with self._streams.reopened(state):
            order = self._planner.resumed(state)  # raises now rather than at the next iteration
            if self._planner.has_ended(order, order.start):  # made from `num_samples`, or with another batch size
                state = self._planner.state(self._planner.order(state.epoch + 1), 0)
            self.progress.load(state, saved.get("worker"))

    def assembler(self, allocator: Allocator | None = None) -> Assembler:
        """Make an object that makes batches of these streams in this process."""
        return Assembler(self._streams.reading.readers, self._processing(), allocator or Arena())

    def prefetcher(self, run: EpochRun, share: WorkerShare = WorkerShare(), start: int = 0) -> Prefetcher | None:  # noqa: B008 - frozen
        """Start to download the shards that a run needs from batch `start` on; None if all are local."""
        if self._streams.reading.is_local:
            return None
        reading = self._streams.reading
        horizon = self._planner.batches_ahead(run, self._predownload)
        orders = RunOrders(run, self._planner.state(run.order, run.order.start), self._planner.order)
        uses = [FolderUses(cache, reading.readers, run, orders) for cache in reading.caches]
        return Prefetcher(reading.readers, run, share, horizon, start, uses)

    def sample(self, row: BatchRow) -> Sample:
        """One sample, as the next epoch would have it. Raises `SampleError`."""
        return Assembler([], self._processing(), Arena(0)).sample(row, self.progress.next_epoch)

    def samples(self) -> Iterator[Sample]:
        """The samples of this worker's share of the next run, one by one, with padding rows."""
        if self._samples.batch_transform is not None:
            raise ConfigError(
                "batch_transform works on batches, and these are single samples: read with StreamingDataLoader, or "
                "call the function in the collate_fn of torch's DataLoader and leave it out here"
            )
        info = torch.utils.data.get_worker_info()
        share = WorkerShare(info.id, info.num_workers) if info is not None else WorkerShare()
        home, run = Home(), self.begin()
        start = self.progress.take_first_batch()
        assembler, prefetcher = self.assembler(), self.prefetcher(run, share, start)
        pattern: Sample | None = None
        try:
            for index in share.numbers(start, len(run)):
                plan = run.plan(index)
                rows = assembler.rows(plan)
                if prefetcher is not None:
                    prefetcher.begin()
                for number, row in enumerate(rows, 1):
                    home.check()
                    sample = None if row is None else self._read(assembler, row, plan.epoch)
                    pattern = sample or pattern or assembler.pattern(plan.epoch)
                    is_last = number == len(rows)
                    self.progress.delivered(run, index + is_last, 0 if is_last else number)
                    yield padding_like(pattern) if sample is None else sample
                if prefetcher is not None:
                    prefetcher.delivered(index)
        finally:
            if home.is_here:
                if prefetcher is not None:
                    prefetcher.close()
                self.close_idle()

    def _read(self, assembler: Assembler, row: BatchRow, epoch: int) -> Sample | None:
        """A sample; None for a bad sample that is skipped."""
        try:
            return assembler.sample(row, epoch)
        except SampleError:
            self._num_bad += 1
            if self._samples.on_bad_sample is not OnBadSample.SKIP or self._num_bad > self._samples.max_bad_samples:
                raise
            return None

    def _processing(self) -> SampleProcessing:
        seed, streams = self._planner.spec.shuffle_seed, self._streams
        outputs = with_padding(streams.outputs, self._samples.pad)
        found = outputs, streams.has_metadata, streams.has_windows
        return SampleProcessing(self._samples, seed, *found, dict(streams.rasters))
