"""Makes the orders and runs of the epochs of a dataset, from its settings, its streams and the world.

The position of a dataset is in `progress`. The planner reads no data except lengths, and these only for length buckets.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from secrets import token_hex

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, StateError
from headrace.streaming import distributed
from headrace.streaming.by_length.buckets import GlobalBatches, in_buckets
from headrace.streaming.by_length.frame_budget import BATCH_MULTIPLE
from headrace.streaming.opened.known_lengths import IndexLengths
from headrace.streaming.opened.opening import OpenStreams
from headrace.streaming.order.epoch_order import EpochOrder, Rows, joined
from headrace.streaming.order.passes import BLOCK_SHARDS
from headrace.streaming.order.phases import EpochPhase
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, OrderSpec
from headrace.streaming.order.state import OrderState, resume, save
from headrace.streaming.run.epochs import EpochRun
from headrace.streaming.settings import SampleSettings
from headrace.streaming.world import World

_LEAST_AHEAD_BATCHES = 8


def in_frames(spec: OrderSpec, streams: OpenStreams, samples: SampleSettings) -> OrderSpec:
    """Convert a frame budget in seconds to frames, at the rate of the samples; other specs stay as they are.

    Raises:
        ConfigError: the first samples of the streams have different rates, or none is known.
    """
    if not isinstance(spec.buckets, FrameBudget) or spec.buckets.seconds_per_batch is None:
        return spec
    rates = streams.reading.rates_hz(samples)
    if len(rates) != 1:
        raise ConfigError(
            f"seconds_per_batch={spec.buckets.seconds_per_batch:g}, but samples have "
            f"{', '.join(f'{rate:g}' for rate in sorted(rates)) or 'an unknown number of'} frames per second: expected "
            "one rate; pass sample_rate=… to resample, or FrameBudget(frames_per_batch=…)"
        )
    return replace(spec, buckets=spec.buckets.at(rates.pop()))


@dataclass(frozen=True, slots=True, eq=False)
class Planner:
    """Makes the orders and runs of a dataset's epochs.

    Attributes:
        spec: what the order depends on besides the data.
        streams: the opened streams.
        world: rank and world size.
        samples: crop and resampling of a sample, which decide its length.
        epoch_size: a value that `mixing.parse_epoch_size` accepts.
        change_streams: whether a state may have another mixture.
        exclude: keys of samples that are padding instead.
    """

    spec: OrderSpec
    streams: OpenStreams
    world: World
    samples: SampleSettings
    epoch_size: int | str | None = None
    change_streams: bool = False
    exclude: tuple[str, ...] = ()

    def order(self, epoch: int) -> EpochOrder:
        """The order of an epoch from its beginning."""
        return EpochOrder(self.spec, self.streams.mixture(self.epoch_size), epoch)

    def rows(self, epoch: int) -> Rows:
        """The samples of a whole epoch, in some order; without padding."""
        order = self.order(epoch)
        if isinstance(self.spec.buckets, FrameBudget):  # its partial passes select other samples
            batches = self.batches(order)
            rows = joined([batches.batch(index) for index in range(batches.num_batches)])
        else:
            rows = order.positions(0, order.num_rows)
        return rows[~rows.is_padding]

    def check(self) -> None:
        """Raise the errors of the settings now rather than in the first epoch; this is only arithmetic.

        Raises:
            ConfigError: weights or batch sizes contradict each other, there is nothing to cut out, or the world size
                does not divide a batch size.
        """
        self.order(0)
        if self.samples.crops:
            self.streams.check_time_axes()
        if isinstance(self.spec.buckets, FrameBudget):
            self.world.batch_size(self.spec.buckets.batch_multiple, BATCH_MULTIPLE)
        if self.spec.batching_method is BatchingMethod.PER_STREAM:
            for stream in self.streams.mixture(self.epoch_size).streams:
                size = stream.batch_size or self.spec.global_batch_size
                self.world.batch_size(size, f"stream {stream.name!r} with a batch_size")

    def check_ranks(self) -> str:
        """Check that all ranks make the order of rank 0; all of them must call this.

        Returns:
            A name that this dataset has on all ranks, and no other has.

        Raises:
            ConfigError: this rank would take its rows of other batches than rank 0.
        """
        mine = {field.name: repr(getattr(self.spec, field.name)) for field in fields(OrderSpec)}
        mine["data"] = repr([stream.data for stream in self.streams.states()])
        mine["samples per epoch"] = repr([stream.num_samples for stream in self.order(0).phases[0].streams])
        mine["exclude"] = f"{len(self.exclude)} keys ({_digest(sorted(self.exclude))})"
        first, name_of_all = distributed.from_rank_zero((mine, token_hex(8)))
        if (name := _different(mine, first)) is not None:
            raise ConfigError(
                f"{name}: {mine[name]} on rank {self.world.rank}, but {first[name]} on rank 0, so some samples would "
                "come twice and others never: give all ranks the same arguments (a transform with a parameter rng "
                "gets other numbers for each sample); or pass world=World() to read all samples on each rank"
            )
        return name_of_all

    def check_beginning(self, name: str, order: EpochOrder) -> None:
        """Check that this rank begins a run where the first rank to begin it does; no rank waits for another.

        Args:
            name: names the run on all ranks.
            order: the order from the beginning of the run on.

        Raises:
            StateError: the ranks would take their rows of other batches.
        """
        state = self.state(order, order.start)
        mine = {"epoch": str(state.epoch), "row of the epoch": str(state.sample_in_epoch)}
        mine |= {"data": _digest([stream.data for stream in state.streams]), "phases": _digest(_nameless(state.phases))}
        rank, first = json.loads(distributed.first_value(f"headrace/{name}", json.dumps((self.world.rank, mine))))
        if (field := _different(mine, first)) is not None:
            raise StateError(
                f"{field}: {mine[field]} on rank {self.world.rank}, but {first[field]} on rank {rank}, from where both "
                "go on, so some samples would come twice and others never: load the same state on all ranks or on "
                "none, and begin to iterate on all ranks equally often, also before a state is loaded"
            )

    def resumed(self, state: OrderState) -> EpochOrder:
        """The order from the position of a state on. Raises `StateError` if something that it depends on differs."""
        mixture, now = self.streams.mixture(self.epoch_size), self.streams.states()
        return resume(state, self.spec, mixture, now, change_streams=self.change_streams)

    def run(self, order: EpochOrder) -> EpochRun:
        """This rank's batches of an order."""
        return EpochRun(order, self.batches(order), self.world, self._left_out if self.exclude else None)

    def _left_out(self) -> Sequence[NDArray[np.int64]]:
        return self.streams.reading.samples_of(self.exclude)

    def batches(self, order: EpochOrder) -> GlobalBatches:
        """The global batches of an order, with its length buckets."""
        return in_buckets(order, IndexLengths(self.streams, self.samples))

    @property
    def has_even_batches(self) -> bool:
        """Whether all global batches have the same number of rows."""
        spec, mixture = self.spec, self.streams.mixture(self.epoch_size)
        sizes = {stream.batch_size or spec.global_batch_size for stream in mixture.streams}
        is_own = spec.batching_method is BatchingMethod.PER_STREAM and sizes != {spec.global_batch_size}
        return not is_own and not isinstance(spec.buckets, FrameBudget)

    def has_ended(self, order: EpochOrder, row: int) -> bool:
        """Whether no batch is left from a row of an epoch on; always False at its first row."""
        if row < order.start or not row:
            return False
        if isinstance(self.spec.buckets, FrameBudget):  # its batches are not the order's
            return row >= order.phases[-1].start + order.num_rows
        return not order.num_batches_from(row)

    def num_batches_before(self, run: EpochRun) -> int:
        """Batches of an epoch before the start of a run, counted with the current batch size and mixture."""
        order = run.order
        if len(order.phases) > 1:
            return -(-order.start // self.spec.global_batch_size)
        return len(self.run(self.order(order.epoch))) - len(run) if order.start else 0

    def state(self, order: EpochOrder, row: int) -> OrderState:
        """The state before `row` of an order's epoch."""
        return save(order, row, self.streams.states())

    def batches_ahead(self, run: EpochRun, num_samples: int | None) -> int:
        """Number of batches of a run to download ahead: `num_samples` of this rank, or else a shuffle block.

        It is at least 8 batches: a loader would otherwise read by ranges the shards that are downloaded right after.
        """
        if num_samples is None:
            streams = self.streams
            shards = BLOCK_SHARDS * streams.num_samples // max(1, streams.num_shards)
            block = self.spec.shuffle_block_size or shards
            num_samples = block // self.world.world_size
        return max(_LEAST_AHEAD_BATCHES, math.ceil(num_samples * len(run) / max(1, run.num_rows)))


def _digest(value: object) -> str:
    """A few digits that differ for other values."""
    return sha256(repr(value).encode()).hexdigest()[:8]


def _nameless(phases: Sequence[EpochPhase]) -> list[object]:
    """Phases with the numbers of their streams in place of the names, which may come from a host's own paths."""
    numbers: dict[str, int] = {}
    return [
        (phase.start, [(numbers.setdefault(s.name, len(numbers)), s.num_samples, s.batch_size) for s in phase.streams])
        for phase in phases
    ]


def _different(mine: Mapping[str, str], first: Mapping[str, str]) -> str | None:
    """The first name whose values differ; None if all are equal."""
    return next((name for name, value in mine.items() if value != first[name]), None)
