"""Batches of samples of similar length, as a function of the order and of the index of lengths alone.

The order is cut into windows. The samples of a window are sorted by length and cut into global batches, and these
batches are shuffled. So the batches are the same on every world, and a batch is found without reading those before it.
The lengths come from a function that the caller passes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, StateError
from headrace.streaming.order.bijection import mix, permute
from headrace.streaming.order.epoch_order import PADDING, EpochOrder, Rows
from headrace.streaming.order.spec import FrameBudget, LastBatch, LengthBuckets
from headrace.streaming.world import ALONE, World

_WINDOW = 401

BATCH_MULTIPLE = "FrameBudget's batch_multiple"
"""Name, in error messages, of the number that a world size must divide."""

Ints = NDArray[np.int64]
Lengths = Callable[[Rows], Ints]
"""Frames of each row's sample: rows without padding (num_rows,) → int64 (num_rows,)."""


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


def in_buckets(order: EpochOrder, lengths: Lengths) -> GlobalBatches:
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


class BudgetedOrder:
    """Global batches of samples of similar length; rows times longest sample stays within a budget of frames.

    The sizes of the batches depend on all lengths, so all lengths are read once, in the sequence of the order.
    `sample_in_epoch` counts the samples delivered, without padding. Only the last batch of the epoch may need padding
    rows to be a multiple of `batch_multiple`; ``last_batch="drop"`` leaves out the samples that would need them.
    """

    def __init__(self, order: EpochOrder, lengths: Lengths, budget: FrameBudget) -> None:
        """Read the lengths of the last phase of the order and cut it into batches.

        Raises:
            ConfigError: a sample does not fit the budget.
            StateError: the order's start is not the start of a batch.
        """
        self._order = order
        self._lengths = lengths
        self._budget = budget
        self._phase_start = order.phases[-1].start
        self._open: tuple[int, _SortedWindow] | None = None
        is_whole = order.spec.last_batch is LastBatch.DROP
        self._num_samples = order.num_rows - (order.num_rows % budget.batch_multiple if is_whole else 0)
        num_windows = -(-self._num_samples // budget.window_rows)
        sizes = [self._window(number).sizes for number in range(num_windows)]
        self._first_of_window = np.cumsum([0] + [len(size) for size in sizes])
        self._starts = self._phase_start + np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        self._first = int(np.searchsorted(self._starts, order.start))
        if self._first == len(self._starts) or self._starts[self._first] != order.start:
            raise StateError(
                f"sample_in_epoch is {order.start}, but no batch of frames_per_batch={budget.frames_per_batch} begins "
                "there: resume with the data and settings that were saved"
            )

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""
        return self._order.num_samples

    @property
    def num_batches(self) -> int:
        """Global batches from the order's `start` on."""
        return len(self._starts) - 1 - self._first

    def batch_start(self, index: int) -> int:
        """Samples of the epoch delivered after `index` batches."""
        return int(self._starts[self._first + index])

    def batch(self, index: int, world: World = ALONE) -> Rows:
        """This rank's rows of global batch `index`; as `EpochOrder.batch`.

        Raises:
            ConfigError: `batch_multiple` does not divide by the world size.
        """
        if not 0 <= index < self.num_batches:
            raise IndexError(f"batch {index} of {self.num_batches}")
        world.batch_size(self._budget.batch_multiple, BATCH_MULTIPLE)
        index += self._first
        number = int(np.searchsorted(self._first_of_window, index, side="right")) - 1
        rows = self._window(number).batch(index - int(self._first_of_window[number]), self._budget.batch_multiple)
        return rows[world.rank :: world.world_size]

    def _window(self, number: int) -> "_SortedWindow":
        if self._open is None or self._open[0] != number:
            begin = number * self._budget.window_rows
            stop = min(begin + self._budget.window_rows, self._num_samples)
            rows = self._order.positions(self._phase_start + begin, self._phase_start + stop)
            lengths = _lengths_of(rows, self._lengths)
            by_length = np.argsort(lengths, kind="stable")
            cuts = cut_by_frames(lengths[by_length], self._budget.frames_per_batch, self._budget.batch_multiple)
            shuffled = _shuffled(len(cuts) - 1, _shuffle_key(self._order, number))
            self._open = number, _SortedWindow(rows[by_length], cuts[:-1][shuffled], np.diff(cuts)[shuffled])
        return self._open[1]


@dataclass(frozen=True, slots=True, eq=False)
class _SortedWindow:
    """Rows of one window sorted by length, and the batches cut from them, in the order of delivery."""

    rows: Rows
    starts: Ints
    sizes: Ints

    def batch(self, index: int, multiple: int) -> Rows:
        size = int(self.sizes[index])
        start = int(self.starts[index])
        padding = np.full(-size % multiple, PADDING)
        rows = self.rows[start : start + size]
        return Rows(
            np.concatenate([rows.stream_ids, np.zeros(len(padding), np.int32)]),
            np.concatenate([rows.sample_ids, padding]),
        )


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


def cut_by_frames(lengths: Ints, frames_per_batch: int, multiple: int) -> Ints:
    """Cut samples sorted by length into the longest batches whose padded frames stay within a budget.

    A batch's rows, rounded up to `multiple`, times its longest sample are at most `frames_per_batch`. All but the last
    batch have a multiple of `multiple` samples.

    Args:
        lengths: (num_samples,) frames, increasing.
        frames_per_batch: the budget.
        multiple: what the number of rows is a multiple of.

    Returns:
        int64 (num_batches + 1,): where batches begin, and the end.

    Raises:
        ConfigError: `multiple` rows of some sample's length are more than the budget.
    """
    cuts = [0]
    while cuts[-1] < len(lengths):
        cuts.append(_next_cut(lengths, cuts[-1], frames_per_batch, multiple))
    return np.array(cuts, np.int64)


def _next_cut(lengths: Ints, start: int, frames_per_batch: int, multiple: int) -> int:
    left = len(lengths) - start
    low, high = (
        0,
        -(-left // multiple),
    )  # groups of rows: more rows never have a shorter longest sample, so a binary search is possible
    while low < high:
        middle = (low + high + 1) // 2
        longest = int(lengths[min(start + middle * multiple, len(lengths)) - 1])
        low, high = (middle, high) if middle * multiple * longest <= frames_per_batch else (low, middle - 1)
    if low == 0:
        longest = int(lengths[min(start + multiple, len(lengths)) - 1])
        raise ConfigError(
            f"frames_per_batch={frames_per_batch} has no room for {multiple} rows (batch_multiple) of {longest} "
            f"frames, the length of a sample: raise it to at least {multiple * longest}, which that sample needs (a "
            "later one may need more), or crop the samples"
        )
    return min(start + low * multiple, len(lengths))


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
