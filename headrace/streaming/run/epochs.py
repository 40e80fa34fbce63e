"""Runs through an epoch, or through the rest of one: plans the batches of one rank, and counts its position.

An `EpochRun` turns the rows of the order into a `BatchPlan` for each batch. It reads no data except lengths, and these
only for length buckets.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.by_length.buckets import GlobalBatches
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.spec import FrameBudget
from headrace.streaming.world import World

COLD_BATCHES = 4
"""Number of batches at the start of a run that do not wait for shards that are being downloaded."""


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """The batches of a run that one of several workers makes: those whose number is `first` modulo `stride`."""

    first: int = 0
    stride: int = 1

    def numbers(self, start: int, stop: int) -> range:
        """The batches of the share in [start, stop)."""
        return range(start + (self.first - start) % self.stride, stop, self.stride)


class EpochRun:
    """The batches of one rank from the start of its order to the end of the epoch; safe for threads."""

    def __init__(
        self,
        order: EpochOrder,
        batches: GlobalBatches,
        world: World,
        left_out: Callable[[], Sequence[NDArray[np.int64]]] | None = None,
    ) -> None:
        """Plan nothing yet.

        Args:
            order: the order.
            batches: its batches.
            world: this rank.
            left_out: gives the samples of each stream that are padding instead; None to leave out no sample.
        """
        self.order = order
        self._left_out = left_out
        self.world = world
        self._batches = batches
        self._lock = threading.Lock()
        self._ahead: dict[int, BatchPlan] = {}
        self._next = 0  # the batch after the last one that was planned

    def __len__(self) -> int:
        """Batches of the run; the same on every rank."""
        return self._batches.num_batches

    @property
    def epoch(self) -> int:
        """Number of the epoch."""
        return self.order.epoch

    @property
    def num_rows(self) -> int:
        """Rows of one rank, with padding."""
        rows, buckets = self.row_after(len(self)) - self.row_after(0), self.order.spec.buckets
        if isinstance(buckets, FrameBudget):  # its positions do not count the padding rows of the last batch
            rows += -rows % buckets.batch_multiple
        return rows // self.world.world_size

    def row_after(self, num_batches: int, num_rows: int = 0) -> int:
        """`sample_in_epoch` when this many batches, and rows of the next one, were delivered on every rank."""
        return self._batches.batch_start(num_batches) + num_rows * self.world.world_size

    def row_at(self, row: int) -> int:
        """The last row up to `row` that a state can have: any, or the first of a batch if the order needs it."""
        spec = self.order.spec
        if row < self.row_after(0) or not (spec.needs_global_batch or spec.buckets):
            return row
        return self.row_after(bisect_right(range(len(self) + 1), row, key=self.row_after) - 1)

    def peek(self, index: int) -> BatchPlan:
        """The plan of batch `index` for a look-ahead; `plan` does not compute it again."""
        with self._lock:
            plan = self._ahead.get(index) or self._plan(index)
            if index >= self._next:  # else it was planned already: workers may be further than the look-ahead
                self._ahead[index] = plan
            return plan

    def plan(self, index: int) -> BatchPlan:
        """The plan of batch `index` of the run; a worker asks for its batches in order."""
        with self._lock:
            self._next = max(self._next, index + 1)
            return self._ahead.pop(index, None) or self._plan(index)

    def plans(self, share: WorkerShare = WorkerShare(), start: int = 0) -> Iterator[BatchPlan]:
        """The plans of a worker's batches, in order, from batch `start` of the run on."""
        return (self.plan(index) for index in share.numbers(start, len(self)))

    def _plan(self, index: int) -> BatchPlan:
        rows = self._batches.batch(index, self.world)
        if self._left_out is not None:
            rows = rows.without(self._left_out())
        first = self._batches.batch_start(index) + self.world.rank
        positions = first + self.world.world_size * np.arange(len(rows))
        return BatchPlan(self.order.epoch, rows, positions, patient=index >= COLD_BATCHES)
