"""The order of an epoch: global batch g, row t → which sample of which stream.

This is the face of the pure core (docs/order.md). It owns nothing that takes time or space in proportion to the epoch:
an `EpochOrder` is arithmetic over the lists of shard sizes. Must not contain I/O, threads, torch or any trace of the
world but in `EpochOrder.batch`, which picks one rank's rows out of a global batch that is the same on every world.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.mixing import StreamSpec
from headrace.streaming.spec import OrderSpec
from headrace.streaming.world import World

PADDING = -1
"""Sample id of a row that holds no sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a global batch, in order.

    Attributes:
        stream_ids: int32 (num_rows,); index into the list of streams; 0 where padding.
        sample_ids: int64 (num_rows,); sample of that stream in storage order (shards end to end); `PADDING` for a row
            that holds none.
    """

    stream_ids: NDArray[np.int32]
    sample_ids: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def is_padding(self) -> NDArray[np.bool_]:
        """(num_rows,); whether a row holds no sample."""
        return self.sample_ids == PADDING


@dataclass(frozen=True, slots=True)
class LegStream:
    """What one stream gives to a leg.

    Attributes:
        name: the stream's name.
        num_samples: samples of the stream in this leg.
        batch_size: the stream's own batch size if it had one.
    """

    name: str
    num_samples: int
    batch_size: int | None = None


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of an epoch with one mixture, from row `start` of the epoch to the next leg or the end.

    An epoch has one leg, starting at 0, until its mixture is changed while it runs.
    """

    start: int
    streams: tuple[LegStream, ...]


class EpochOrder:
    """The order of one epoch: a pure function of its arguments, the same on every world.

    Rows of the epoch are counted from 0 over all global batches, padding rows included; `start` is where this run of it
    begins, and batch 0 is the first batch from there.
    """

    def __init__(
        self,
        spec: OrderSpec,
        streams: Sequence[StreamSpec],
        epoch: int,
        *,
        epoch_size: int | str | None = None,
        legs: Sequence[Leg] = (),
        start: int = 0,
    ) -> None:
        """Order of `epoch`.

        Args:
            spec: what the order depends on besides data, weights and epoch.
            streams: the mixture.
            epoch: number of the epoch, at least 0.
            epoch_size: as `mixing.stream_counts` takes it.
            legs: the epoch's legs so far, from a saved state; none for an epoch from its beginning.
            start: row of the epoch at which batch 0 begins; `sample_in_epoch` of a saved state.

        Raises:
            ConfigError: the settings contradict each other (as `mixing.stream_counts`, and batch sizes that do not fit
                the batching method).
            StateError: `start` is inside a global batch, where the order depends on the global batch size.
        """
        raise NotImplementedError

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch, as many as arrive under ``last_batch="pad"``; padding is not counted."""
        raise NotImplementedError

    @property
    def num_batches(self) -> int:
        """Global batches from `start` to the end of the epoch; the same for every rank of every world."""
        raise NotImplementedError

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The epoch's legs: what a saved state needs besides the position."""
        raise NotImplementedError

    def batch(self, index: int, world: World = World()) -> Rows:  # noqa: B008 (frozen)
        """Rows of global batch `index` (counted from `start`) that belong to `world`'s rank.

        Raises:
            IndexError: not in [0, num_batches).
            ConfigError: the batch does not divide by the world size.
        """
        raise NotImplementedError

    def positions(self, start: int, stop: int) -> Rows:
        """Rows [start, stop) of the epoch, whatever batches they fall in."""
        raise NotImplementedError

    def batch_start(self, index: int) -> int:
        """Row of the epoch at which global batch `index` begins: `sample_in_epoch` once `index` batches are delivered."""
        raise NotImplementedError

    def stream_positions(self, row: int) -> dict[str, int]:
        """Samples that each stream has given before `row` of the epoch."""
        raise NotImplementedError
