"""One run through an epoch, or through the rest of one: its batches' plans, and where it stands after each.

Owns the step from the order's rows to `BatchPlan`s of one rank. It reads nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.streaming.assemble import BatchPlan
from headrace.streaming.order import EpochOrder
from headrace.streaming.world import World

_COLD_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Share:
    """The batches of a run that one of several workers makes: those whose number is `first` modulo `stride`."""

    first: int = 0
    stride: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class EpochRun:
    """A run of one rank from where its order starts to the epoch's end."""

    order: EpochOrder
    world: World
    num_cold: int = _COLD_BATCHES

    def __len__(self) -> int:
        """Batches of the run; the same on every rank."""
        return self.order.num_batches

    def plan(self, index: int) -> BatchPlan:
        """The plan of batch `index` of the run."""
        world = self.world
        start, stop = self.order.batch_start(index), self.order.batch_start(index + 1)
        positions = np.arange(start + world.rank, stop, world.world_size)
        rows = self.order.batch(index, world)
        return BatchPlan(self.order.epoch, rows, positions[: len(rows)], patient=index >= self.num_cold)

    def plans(self, share: Share = Share(), start: int = 0) -> Iterator[BatchPlan]:  # noqa: B008 - frozen
        """The plans of a worker's batches, in order, from batch `start` of the run on."""
        for index in range(start + (share.first - start) % share.stride, len(self), share.stride):
            yield self.plan(index)
