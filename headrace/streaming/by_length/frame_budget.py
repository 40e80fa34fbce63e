"""Batches under a budget of frames, in closed form: a batch is of one bin of lengths, which fixes its number of rows.

Each bin has a sequence of all its samples in the epoch, and its batches are cut from this sequence one after another.
So the numbers of batches and samples follow from the numbers of samples in the bins. The epoch is divided into windows;
a batch comes in the window in which its bin has enough samples, and the batches of a window are shuffled. A batch, and
the samples before it, are found by evaluating a few windows. How many samples of each bin a stream has at some point of
the epoch, `binned_stream` computes from the census.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import StateError
from headrace.streaming.by_length.binned_stream import BinnedStream
from headrace.streaming.by_length.length_bins import LengthBins, choose_bins
from headrace.streaming.by_length.lengths import KnownLengths, StreamLengths
from headrace.streaming.order.bijection import mix, permute
from headrace.streaming.order.epoch_order import PADDING, EpochOrder, Rows
from headrace.streaming.order.spec import FrameBudget, LastBatch, ShuffleAlgo
from headrace.streaming.recent import Recent
from headrace.streaming.world import ALONE, World

BATCH_MULTIPLE = "FrameBudget's batch_multiple"
"""Name, in error messages, of the number that a world size must divide."""

_WINDOW_BATCHES, _WINDOW_STREAMS = range(601, 603)
_WINDOWS_KEPT = 64

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """The batches of a window, in the order of delivery.

    Attributes:
        first: number of its first batch in the epoch.
        bins: int64 (n,); bin of each batch.
        numbers: int64 (n,); number of each batch in its bin.
        starts: int64 (n + 1,); samples of the epoch before each batch, and after the last.
    """

    first: int
    bins: Ints
    numbers: Ints
    starts: Ints


class BudgetedOrder:
    """Global batches of samples of similar length; rows times longest sample stays within a budget of frames.

    All batches are full, except the last of the epoch, which may have padding rows; with ``last_batch="drop"`` it
    leaves out the samples that would need them. `sample_in_epoch` counts the samples delivered, without padding.
    """

    def __init__(self, order: EpochOrder, lengths: KnownLengths, budget: FrameBudget) -> None:
        """Cut the epoch of `order` into batches.

        Raises:
            ConfigError: a sample does not fit the budget.
            StateError: the order's start is not the start of a batch.
        """
        self._order = order
        self._budget = budget
        censuses = [lengths.census(number) for number in range(len(order.streams))]
        weights = [stream.num_planned / max(1, stream.size) for stream in order.streams]
        self._bins = choose_bins(censuses, weights, budget)
        is_mixed = order.spec.shuffle and order.spec.shuffle_algo is ShuffleAlgo.FULL
        max_nodes = 1 if is_mixed else order.spec.num_canonical_nodes
        self._streams = [
            BinnedStream(stream, census, self._bins, max_nodes, StreamLengths(lengths, number))
            for number, (stream, census) in enumerate(zip(order.streams, censuses, strict=True))
        ]
        self._num_windows = max(1, order.num_rows // budget.window_samples)
        totals = sum((stream.totals for stream in self._streams), np.zeros(len(self._bins), np.int64))
        self._cuts = _Cuts.of(totals, self._bins, budget, is_padded=order.spec.last_batch is LastBatch.PAD)
        self._taken_kept: Recent[int, Ints] = Recent(_WINDOWS_KEPT)
        self._windows: Recent[int, _Window] = Recent(_WINDOWS_KEPT)
        self._first = self._batch_at(order.start)

    @property
    def num_samples(self) -> int:
        """Samples of the whole epoch."""
        return self._order.num_samples

    @property
    def num_batches(self) -> int:
        """Global batches from the order's `start` on."""
        return self._cuts.num_batches - self._first

    def batch_start(self, index: int) -> int:
        """Samples of the epoch delivered after `index` batches."""
        index += self._first
        if index == self._cuts.num_batches:
            return self._cuts.num_samples
        window = self._window(self._window_of(index, self._num_batches_before))
        return int(window.starts[index - window.first])

    def batch(self, index: int, world: World = ALONE) -> Rows:
        """This rank's rows of global batch `index`; as `EpochOrder.batch`.

        Raises:
            ConfigError: `batch_multiple` does not divide by the world size.
        """
        if not 0 <= index < self.num_batches:
            raise IndexError(f"batch {index} of {self.num_batches}")
        world.batch_size(self._budget.batch_multiple, BATCH_MULTIPLE)
        index += self._first
        number = self._window_of(index, self._num_batches_before)
        window = self._window(number)
        place = index - window.first
        bin_number, size = int(window.bins[place]), int(window.starts[place + 1] - window.starts[place])
        start = int(window.numbers[place] * self._bins.num_rows[bin_number])
        padding = np.full(-size % self._budget.batch_multiple, PADDING)
        positions = np.concatenate([np.arange(start, start + size), padding])[world.rank :: world.world_size]
        return self._rows(bin_number, positions, number)

    def _rows(self, bin_number: int, positions: Ints, window: int) -> Rows:
        """The samples at positions of a bin's sequence, all of them in or before a window."""
        streams, samples = np.zeros(len(positions), np.int32), np.full(len(positions), PADDING)
        held = np.flatnonzero(positions != PADDING)
        bins, own = self._cuts.sources(bin_number, positions[held])
        for wanted in sorted(set(bins.tolist())):
            rows = held[bins == wanted]
            streams[rows], samples[rows] = self._in_bin(wanted, own[bins == wanted], window)
        return Rows(streams, samples)

    def _in_bin(self, bin_number: int, position: Ints, window: int) -> tuple[Ints, Ints]:
        if len(self._streams) == 1:
            return np.zeros_like(position), self._streams[0].sample_ids(bin_number, position)
        stream, number = np.zeros_like(position), np.zeros_like(position)
        left = np.ones(len(position), np.bool_)
        while left.any():  # a batch has samples of its own window and perhaps of earlier ones
            before, after = self._taken(window)[:, bin_number], self._taken(window + 1)[:, bin_number]
            first, size = int(before.sum()), int((after - before).sum())
            rows = left & (position >= first)
            key = self._key(_WINDOW_STREAMS, window, bin_number)
            place = position[rows] - first
            place = place if key is None else permute(place, size, key)
            ends = np.cumsum(after - before)
            stream[rows] = found = np.searchsorted(ends, place, side="right")
            number[rows] = before[found] + place - (ends - (after - before))[found]
            left &= ~rows
            window -= 1
        samples = np.empty_like(position)
        for wanted in sorted(set(stream.tolist())):
            rows = stream == wanted
            samples[rows] = self._streams[wanted].sample_ids(bin_number, number[rows])
        return stream, samples

    def _window(self, number: int) -> _Window:
        return self._windows.get(number, self._open_window)

    def _open_window(self, number: int) -> _Window:
        before, after = self._batches_before(number), self._batches_before(number + 1)
        counts = after - before
        bins = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(bins)) + np.repeat(before - (np.cumsum(counts) - counts), counts)
        key = self._key(_WINDOW_BATCHES, number)
        if key is not None:
            order = permute(np.arange(len(bins)), len(bins), key)
            bins, numbers = bins[order], numbers[order]
        is_last = self._cuts.is_last(bins, numbers)
        order = np.argsort(is_last, kind="stable")
        bins, numbers = bins[order], numbers[order]
        sizes = np.where(is_last[order], self._cuts.last, self._bins.num_rows[bins])
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]) + self._num_samples_before(number)
        return _Window(int(before.sum()), bins, numbers, starts)

    def _taken(self, window: int) -> Ints:
        """(num_streams, num_bins); samples of each stream and bin before a window."""
        return self._taken_kept.get(window, self._count_taken)

    def _count_taken(self, window: int) -> Ints:
        points = [stream.num_samples * window // self._num_windows for stream in self._streams]
        return np.stack([stream.taken(point) for stream, point in zip(self._streams, points, strict=True)])

    def _batches_before(self, window: int) -> Ints:
        """(num_bins,); batches of each bin before a window."""
        if window == self._num_windows:
            return self._cuts.batches_of_bins
        return self._cuts.batches_within(self._taken(window).sum(axis=0))

    def _num_batches_before(self, window: int) -> int:
        return int(self._batches_before(window).sum())

    def _num_samples_before(self, window: int) -> int:
        if window == self._num_windows:
            return self._cuts.num_samples
        return int(self._batches_before(window) @ self._bins.num_rows)

    def _window_of(self, value: int, before: Callable[[int], int]) -> int:
        """The last window before which there are at most `value` batches or samples; `before` counts them."""
        total = before(self._num_windows)
        low = min(value * self._num_windows // max(1, total), self._num_windows - 1)
        step = 1
        while low > 0 and before(low) > value:
            low, step = max(0, low - step), 2 * step
        high, step = low + 1, 1
        while high < self._num_windows and before(high) <= value:
            low, high, step = high, min(high + step, self._num_windows), 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if before(middle) <= value else (low, middle)
        return low

    def _batch_at(self, row: int) -> int:
        """Number of the batch at which a position begins."""
        if row == self._cuts.num_samples:
            return self._cuts.num_batches
        if row < self._cuts.num_samples:
            window = self._window(self._window_of(row, self._num_samples_before))
            place = int(np.searchsorted(window.starts, row))
            if window.starts[place] == row:
                return window.first + place
        raise StateError(
            f"sample_in_epoch is {row}, but no batch of frames_per_batch={self._budget.frames_per_batch} begins "
            "there: resume with the data and settings that were saved"
        )

    def _key(self, *words: int) -> int | None:
        spec = self._order.spec
        return int(mix(spec.shuffle_seed, words[0], self._order.epoch, *words[1:])) if spec.shuffle else None


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Division of the samples of all bins into full batches.

    The samples of a bin that do not fill a batch join the next longer bin: its own last ones, and only if these are too
    few, some of those that have joined it. So every batch is full, except the last of the longest bin.

    Attributes:
        num_rows: int64 (num_bins,); samples of a full batch.
        kept: int64 (num_bins,); own samples that stay in each bin; the others are passed on.
        passed: int64 (num_bins,); own samples that are passed on, or left out by the longest bin.
        kept_joined: int64 (num_bins,); samples that join each bin and stay; they follow its own.
        last: samples of the last batch, which is not full; 0 if all are full.
    """

    num_rows: Ints
    kept: Ints
    passed: Ints
    kept_joined: Ints
    last: int

    @classmethod
    def of(cls, own: Ints, bins: LengthBins, budget: FrameBudget, *, is_padded: bool) -> "_Cuts":
        """The cuts for these numbers of samples."""
        kept, passed, kept_joined = np.copy(own), np.zeros_like(own), np.zeros_like(own)
        joined = last = 0
        for number in range(len(own)):
            rest = int(own[number] + joined) % int(bins.num_rows[number])
            if number + 1 == len(own):
                rest, last = (0, rest) if is_padded else (rest % budget.batch_multiple, rest)
                last -= rest
            passed[number] = min(rest, own[number])
            kept[number] -= passed[number]
            kept_joined[number] = joined - (rest - passed[number])
            joined = rest
        return cls(bins.num_rows, kept, passed, kept_joined, last)

    @property
    def full_batches(self) -> Ints:
        """int64 (num_bins,); full batches of each bin."""
        return np.asarray((self.kept + self.kept_joined) // self.num_rows)

    @property
    def batches_of_bins(self) -> Ints:
        """int64 (num_bins,); batches of each bin in the epoch."""
        batches = self.full_batches
        batches[-1:] += self.last > 0
        return batches

    @property
    def num_batches(self) -> int:
        """Batches of the epoch."""
        return int(self.batches_of_bins.sum())

    @property
    def num_samples(self) -> int:
        """Samples of all batches."""
        return int((self.kept + self.kept_joined).sum())

    def batches_within(self, samples: Ints) -> Ints:
        """(num_bins,); batches that have only own samples, among the first `samples` (num_bins,) of each bin."""
        return np.asarray(np.minimum(samples, self.kept) // self.num_rows)

    def is_last(self, bins: Ints, numbers: Ints) -> NDArray[np.bool_]:
        """Which of these batches is the one that is not full; it is the last of the epoch."""
        return np.asarray((bins == len(self.kept) - 1) & (numbers == self.full_batches[-1:].sum()))

    def sources(self, bin_number: int, position: Ints) -> tuple[Ints, Ints]:
        """The bin that each sample at positions of a bin's batches is of, and its position among the bin's own."""
        bins, joined = np.full_like(position, bin_number), position - self.kept[bin_number]
        own = position.copy()
        while (left := joined >= 0).any():  # samples that joined from the next shorter bin, or through it
            bins = np.where(left, bins - 1, bins)
            further = joined - self.passed[bins]
            own = np.where(left, self.kept[bins] + joined, own)
            joined = np.where(left & (further >= 0), self.kept_joined[bins] + further, -1)
        return bins, own
