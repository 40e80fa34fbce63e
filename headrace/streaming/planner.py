"""From what a dataset was told to the orders and runs of its epochs.

Owns the meeting of settings, streams and world; it holds no position (`progress`), reads lengths alone, and those only
for buckets.
"""

import math
from dataclasses import dataclass

from headrace.streaming.epochs import EpochRun
from headrace.streaming.opening import OpenStreams
from headrace.streaming.order.buckets import BATCH_MULTIPLE, in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.passes import BLOCK_SHARDS
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, OrderSpec
from headrace.streaming.settings import SampleConfig
from headrace.streaming.state import OrderState, resume, save
from headrace.streaming.world import World

_LEAST_AHEAD_BATCHES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Planner:
    """Makes the orders and runs of a dataset's epochs.

    Attributes:
        spec: what the order depends on besides the data.
        streams: the data.
        world: which rank this is.
        samples: what becomes of a sample, and so how long it is.
        epoch_size: as `mixing.parse_epoch_size` takes it.
        change_streams: whether a state may come from another mixture.
    """

    spec: OrderSpec
    streams: OpenStreams
    world: World
    samples: SampleConfig
    epoch_size: int | str | None = None
    change_streams: bool = False

    def order(self, epoch: int) -> EpochOrder:
        """The order of an epoch from its beginning."""
        return EpochOrder(self.spec, self.streams.mixture(self.epoch_size), epoch)

    def check(self) -> None:
        """Refuse now what the first epoch would be refused for; this takes arithmetic alone.

        Raises:
            ConfigError: weights or batch sizes contradict each other, or do not divide by the world size.
        """
        self.order(0)
        if isinstance(self.spec.buckets, FrameBudget):
            self.world.batch_size(self.spec.buckets.batch_multiple, BATCH_MULTIPLE)
        if self.spec.batching_method is BatchingMethod.PER_STREAM:
            for stream in self.streams.mixture(self.epoch_size).streams:
                size = stream.batch_size or self.spec.global_batch_size
                self.world.batch_size(size, f"stream {stream.name!r} with a batch_size")

    def resumed(self, state: OrderState) -> EpochOrder:
        """The order from a state's position on. Raises `StateError` when something that it depends on differs."""
        mixture, now = self.streams.mixture(self.epoch_size), self.streams.states()
        return resume(state, self.spec, mixture, now, change_streams=self.change_streams)

    def run(self, order: EpochOrder) -> EpochRun:
        """This rank's batches of an order."""
        batches = in_buckets(order, lambda rows: self.streams.reading.lengths(rows, self.samples))
        return EpochRun(order, batches, self.world)

    def has_ended(self, order: EpochOrder, row: int) -> bool:
        """Whether no batch is left from a row of an order's epoch on; never at its first, even if it has none."""
        if row < order.start or not row:
            return False
        if isinstance(self.spec.buckets, FrameBudget):  # its batches are not the order's
            return row >= order.legs[-1].start + order.num_rows
        return not order.num_batches_from(row)

    def num_batches_before(self, order: EpochOrder) -> int:
        """Batches of an order's epoch that lie before its start, at the batch size and mixture that hold now."""
        if len(order.legs) > 1:
            return -(-order.start // self.spec.global_batch_size)
        return len(self.run(self.order(order.epoch))) - len(self.run(order)) if order.start else 0

    def state(self, order: EpochOrder, row: int) -> OrderState:
        """The state before `row` of an order's epoch."""
        return save(order, row, self.streams.states())

    def batches_ahead(self, run: EpochRun, num_samples: int | None) -> int:
        """How many batches of a run to download ahead: `num_samples` of this rank, or else a shuffle block.

        What a loader is about to read comes whole, too, or it would come by ranges first and then once more.
        """
        if num_samples is None:
            streams = self.streams
            shards = BLOCK_SHARDS * streams.num_samples // max(1, streams.num_shards)
            block = self.spec.shuffle_block_size or shards
            num_samples = block // self.world.world_size
        return max(_LEAST_AHEAD_BATCHES, math.ceil(num_samples * len(run) / max(1, run.num_rows)))
