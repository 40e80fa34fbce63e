"""Counts the lengths of a stream's samples in cells: all that the frame budget's order needs to know of the data.

A cell is a range of lengths, the same for every data set: sixteen to an octave, so that a sample is at most 6% shorter
than the longest of its cell. The counts of each shard depend on the data and on how samples are cropped and resampled,
not on seed, epoch or budget. `stored_census` is the form in which a manifest has the counts of its partition.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.format.lazy import cached_property

_BITS = 4
_PER_OCTAVE = 1 << _BITS
NUM_CELLS = (62 - _BITS + 1) * _PER_OCTAVE
"""Cells of all lengths below 2**62."""

Ints = NDArray[np.int64]
Counts = NDArray[np.integer[Any]]
KINDS = (np.uint8, np.int16, np.int32, np.int64)
"""The types of counts, from the narrowest one on."""


def cell_of(lengths: Ints) -> Ints:
    """Cell of each length: lengths below 32 have their own, and longer ones share one of 16 in their octave.

    Args:
        lengths: int64, each in [0, 2**53).
    """
    exponent = np.frexp(lengths.astype(np.float64))[1].astype(np.int64) - 1  # of the highest bit; exact below 2**53
    shift = np.maximum(exponent - _BITS, 0)
    return np.asarray(np.where(exponent < _BITS, lengths, shift * _PER_OCTAVE + (lengths >> shift)))


@dataclass(frozen=True, eq=False)
class LengthCensus:
    """Counts of samples by length for each shard of a stream.

    Attributes:
        first_cell: cell of the first column.
        counts: (num_shards, num_cells), of the narrowest type that holds them; samples of each shard in each cell.
        longest: int64 (num_cells,); frames of the longest sample in each cell, 0 in an empty one.
    """

    first_cell: int
    counts: Counts
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

    def cropped(self, num_frames: int) -> "LengthCensus":
        """The counts of the same samples, of which longer ones are cropped to `num_frames` frames."""
        last = int(cell_of(np.array([num_frames]))[0]) - self.first_cell
        if last >= len(self.longest):
            return self
        kept = max(last, 0)
        longer = self.counts[:, kept:].sum(axis=1, dtype=np.int64)
        counts = np.column_stack([self.counts[:, :kept], longer.astype(_narrowest(int(longer.max(initial=0))))])
        longest = np.append(self.longest[:kept], min(num_frames, int(self.longest[kept:].max())))
        return LengthCensus(self.first_cell + last - kept, counts, longest)


def count_lengths(parts: Iterable[tuple[NDArray[np.integer], Ints]]) -> LengthCensus:
    """Count the lengths of all samples of a stream.

    Args:
        parts: consecutive shards: the number of samples of each, and the lengths of these samples, end to end.
    """
    return joined_census([_counted(sizes, lengths) for sizes, lengths in parts])


def joined_census(parts: Sequence[LengthCensus]) -> LengthCensus:
    """The counts of consecutive shards as one."""
    used = [part for part in parts if len(part.longest)]
    low = min((part.first_cell for part in used), default=0)
    high = max((part.first_cell + len(part.longest) for part in used), default=0)
    kind = np.result_type(np.uint8, *(part.counts.dtype for part in parts))
    counts = np.zeros((sum(len(part.counts) for part in parts), high - low), kind)
    longest = np.zeros(high - low, np.int64)
    row = 0
    for part in parts:
        cells = slice(part.first_cell - low, part.first_cell - low + len(part.longest))
        if len(part.longest):
            counts[row : row + len(part.counts), cells] = part.counts
            longest[cells] = np.maximum(longest[cells], part.longest)
        row += len(part.counts)
    return LengthCensus(low, counts, longest)


def _counted(sizes: NDArray[np.integer], lengths: Ints) -> LengthCensus:
    cells = cell_of(lengths)
    first, stop = (int(cells.min()), int(cells.max()) + 1) if len(cells) else (0, 0)
    width = stop - first
    longest = np.zeros(width, np.int64)
    np.maximum.at(longest, cells - first, lengths)
    shard = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(shard * width + cells - first, minlength=len(sizes) * width).reshape(len(sizes), width)
    return LengthCensus(first, counts.astype(_narrowest(int(counts.max(initial=0)))), longest)


def _narrowest(most: int) -> type[np.integer[Any]]:
    """The narrowest type of `format.tables` for counts up to `most`."""
    return next((kind for kind in KINDS if most <= np.iinfo(kind).max), np.int64)
