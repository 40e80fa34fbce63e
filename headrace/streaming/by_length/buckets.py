"""Batches of samples of similar length, as a function of the order and of the index of lengths alone.

The order is cut into windows. The samples of a window are sorted by length and cut into global batches, and these
batches are shuffled. So the batches are the same on every world, and a batch is found without reading those before it.
The lengths come from a function that the caller passes.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.by_length.frame_budget import BudgetedOrder
from headrace.streaming.by_length.lengths import KnownLengths, Lengths
from headrace.streaming.order.bijection import mix, permute
from headrace.streaming.order.epoch_order import EpochOrder, Rows
from headrace.streaming.order.spec import FrameBudget, LengthBuckets
from headrace.streaming.world import ALONE, World

_WINDOW = 401

Ints = NDArray[np.int64]


class GlobalBatches(Protocol):
    """The global batches of an epoch: an `EpochOrder`, or one with length buckets."""

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""

    @property
    def num_batches(self) -> int:
        """Global batches from the start of the order to the end of the epoch; the same for every rank and world."""

    def batch(self, index: int, world: World = ALONE) -> Rows:
        """This rank's rows of global batch `index`."""

    def batch_start(self, index: int) -> int:
        """`sample_in_epoch` after `index` batches are delivered."""


def in_buckets(order: EpochOrder, lengths: KnownLengths) -> GlobalBatches:
    """The order with the length buckets that its spec requests, if any."""
    if isinstance(order.spec.buckets, LengthBuckets):
        return BucketedOrder(order, lengths, order.spec.buckets)
    if isinstance(order.spec.buckets, FrameBudget):
        return BudgetedOrder(order, lengths, order.spec.buckets)
    return order


class BucketedOrder:
    """Global batches of constant size, each of samples of similar length.

    There are as many batches as in the order, and each sample comes once. The padding rows of the last batch are sorted
    to the longest samples of its window.
    """

    def __init__(self, order: EpochOrder, lengths: Lengths, buckets: LengthBuckets) -> None:
        """Sort `order` by `lengths` as `buckets` says; `lengths` is called for one window at a time."""
        self._order = order
        self._lengths = lengths
        self._window_batches = buckets.window_batches
        self._open: tuple[int, Rows] | None = None

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""
        return self._order.num_samples

    @property
    def num_batches(self) -> int:
        """Global batches from the order's `start` on."""
        return self._order.num_batches

    def batch_start(self, index: int) -> int:
        """Row of the epoch at which global batch `index` begins."""
        return self._order.batch_start(index)

    def batch(self, index: int, world: World = ALONE) -> Rows:
        """This rank's rows of global batch `index`; as `EpochOrder.batch`."""
        if not 0 <= index < self.num_batches:
            raise IndexError(f"batch {index} of {self.num_batches}")
        size = self._order.spec.global_batch_size
        world.batch_size(size)
        window, batch = divmod(self._order.first_batch + index, self._window_batches)
        return self._window(window)[batch * size + world.rank : (batch + 1) * size : world.world_size]

    def _window(self, number: int) -> Rows:
        if self._open is None or self._open[0] != number:
            first = number * self._window_batches - self._order.first_batch
            last = min(first + self._window_batches, self.num_batches)
            rows = self._order.positions(self.batch_start(first), self.batch_start(last))
            order = sort_into_batches(
                _lengths_of(rows, self._lengths), self._order.spec.global_batch_size, _shuffle_key(self._order, number)
            )
            self._open = number, rows[order]
        return self._open[1]


def sort_into_batches(lengths: Ints, batch_size: int, key: int | None) -> Ints:
    """Order of a window's rows in which each run of `batch_size` has similar lengths.

    Args:
        lengths: (num_rows,) frames of each row, a multiple of `batch_size` rows.
        batch_size: rows of a batch.
        key: shuffles the batches; None leaves the shortest first.

    Returns:
        int64 (num_rows,): a permutation.
    """
    batches = np.argsort(lengths, kind="stable").reshape(-1, batch_size)
    return np.asarray(batches[_shuffled(len(batches), key)].ravel())


def _lengths_of(rows: Rows, lengths: Lengths) -> Ints:
    """Lengths of rows; a padding row is longer than every sample."""
    frames = np.full(len(rows), np.iinfo(np.int64).max)
    held = ~rows.is_padding
    frames[held] = lengths(rows[held])
    return frames


def _shuffle_key(order: EpochOrder, window: int) -> int | None:
    if not order.spec.shuffle:
        return None
    return int(mix(order.spec.shuffle_seed, _WINDOW, order.epoch, len(order.phases), window))


def _shuffled(count: int, key: int | None) -> Ints:
    return np.arange(count) if key is None else permute(np.arange(count), count, key)
