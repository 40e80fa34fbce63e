"""Counts the lengths of a stream's samples in cells: all that the frame budget's order needs to know of the data.

A cell is a range of lengths, the same for every data set: sixteen to an octave, so that a sample is at most 6% shorter
than the longest of its cell. The counts of each shard depend on the data and on how samples are cropped and resampled,
not on seed, epoch or budget; `streaming.known_lengths` counts them once and keeps them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError
from headrace.format.lazy import cached_property
from headrace.streaming.order.epoch_order import Rows

_BITS = 4
_PER_OCTAVE = 1 << _BITS
NUM_CELLS = (62 - _BITS + 1) * _PER_OCTAVE
"""Cells of all lengths below 2**62."""

Ints = NDArray[np.int64]


class Lengths(Protocol):
    """Frames of each row's sample: rows without padding (num_rows,) → int64 (num_rows,)."""

    def __call__(self, rows: Rows, /) -> Ints:
        """The lengths."""


class KnownLengths(Lengths, Protocol):
    """Lengths of samples, and how many of which length each shard has."""

    def census(self, stream: int) -> "LengthCensus":
        """The counts of a stream, by its number in the mixture."""

    def changed(self, stream: int, shard: int) -> HeadraceError:
        """The error for a shard whose lengths are not those that were counted; it names the shard and a remedy."""


@dataclass(frozen=True, slots=True)
class StreamLengths:
    """The lengths of one stream of a mixture.

    Attributes:
        lengths: those of all streams.
        stream: number of the stream.
    """

    lengths: KnownLengths
    stream: int

    def of(self, samples: Ints) -> Ints:
        """Frames of samples (n,), by their numbers in storage order, int64 (n,)."""
        return self.lengths(Rows(np.full(len(samples), self.stream, np.int32), samples))

    def changed(self, shard: int) -> HeadraceError:
        """See `KnownLengths.changed`."""
        return self.lengths.changed(self.stream, shard)


def cell_of(lengths: Ints) -> Ints:
    """Cell of each length: lengths up to 16 have their own, and longer ones share one of 16 in their octave.

    Args:
        lengths: int64, each in [0, 2**53).
    """
    exponent = np.frexp(lengths.astype(np.float64))[1].astype(np.int64) - 1  # of the highest bit; exact below 2**53
    shift = np.maximum(exponent - _BITS, 0)
    return np.asarray(np.where(exponent < _BITS, lengths, shift * _PER_OCTAVE + (lengths >> shift)))


@dataclass(frozen=True, eq=False)
class LengthCensus:
    """How many samples of which length each shard of a stream has.

    Attributes:
        first_cell: cell of the first column.
        counts: (num_shards, num_cells), of the narrowest type that holds them; samples of each shard in each cell.
        longest: int64 (num_cells,); frames of the longest sample in each cell, 0 in an empty one.
    """

    first_cell: int
    counts: NDArray[np.integer[Any]]
    longest: Ints

    @cached_property
    def totals(self) -> Ints:
        """int64 (num_cells,); samples in each cell over all shards."""
        return np.asarray(self.counts.sum(axis=0, dtype=np.int64))

    def is_of(self, shard_sizes: NDArray[np.integer]) -> bool:
        """Whether it counts every sample of shards of these sizes."""
        return len(self.counts) == len(shard_sizes) and bool(
            (self.counts.sum(axis=1, dtype=np.int64) == shard_sizes).all()
        )


def count_lengths(parts: Iterable[tuple[NDArray[np.integer], Ints]]) -> LengthCensus:
    """Count the lengths of all samples of a stream.

    Args:
        parts: consecutive shards: the number of samples of each, and the lengths of these samples, end to end.
    """
    found: list[tuple[int, NDArray[Any]]] = []
    longest = np.zeros(NUM_CELLS, np.int64)
    for sizes, lengths in parts:
        cells = cell_of(lengths)
        np.maximum.at(longest, cells, lengths)
        first, stop = (int(cells.min()), int(cells.max()) + 1) if len(cells) else (0, 0)
        shard = np.repeat(np.arange(len(sizes)), sizes)
        width = stop - first
        counts = np.bincount(shard * width + cells - first, minlength=len(sizes) * width).reshape(len(sizes), width)
        found.append((first, counts.astype(_narrowest(int(counts.max(initial=0))))))
    used = [(first, first + counts.shape[1]) for first, counts in found if counts.shape[1]]
    low, high = min((first for first, _ in used), default=0), max((stop for _, stop in used), default=0)
    kind = np.result_type(np.uint8, *(counts.dtype for _, counts in found))
    everything = np.zeros((sum(len(counts) for _, counts in found), high - low), kind)
    row = 0
    for first, counts in found:
        if counts.shape[1]:
            everything[row : row + len(counts), first - low : first - low + counts.shape[1]] = counts
        row += len(counts)
    return LengthCensus(low, everything, longest[low:high])


def _narrowest(most: int) -> type[np.integer[Any]]:
    """The narrowest type of `format.tables` for counts up to `most`."""
    kinds = (np.uint8, np.int16, np.int32)
    return next((kind for kind in kinds if most <= np.iinfo(kind).max), np.int64)
