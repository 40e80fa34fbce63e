"""Chooses the bins of a frame budget: ranges of lengths, each with its number of rows.

A batch is of one bin. Narrow bins need little padding, and wide ones fill a batch soon; so a bin is as narrow as it can
be if two windows of samples are to fill one of its batches on average. The choice follows from the totals of all
shards, so it is the same in every epoch and on every rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.manifests.length_census import NUM_CELLS, LengthCensus
from headrace.streaming.order.spec import FrameBudget

# Windows that fill a batch of a bin: one needs 5.3% of padding for a budget of 2,000 s of speech, two need 2.9%.
_WINDOWS = 2

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LengthBins:
    """Ranges of cells, from the shortest lengths to the longest.

    Attributes:
        starts: int64 (num_bins + 1,); first cell of each bin, and the end of the last.
        num_rows: int64 (num_bins,); rows of a full batch: as many as the budget allows for the longest sample.
    """

    starts: Ints
    num_rows: Ints

    def __len__(self) -> int:
        return len(self.num_rows)


def choose_bins(censuses: Sequence[LengthCensus], weights: Sequence[float], budget: FrameBudget) -> LengthBins:
    """The bins for a mixture.

    Args:
        censuses: lengths of each stream.
        weights: how often each sample of the stream comes in an epoch.
        budget: the budget of a batch.

    Raises:
        ConfigError: the budget has no room for `batch_multiple` rows of the longest sample.
    """
    share, longest = np.zeros(NUM_CELLS), np.zeros(NUM_CELLS, np.int64)
    for census, weight in zip(censuses, weights, strict=True):
        cells = slice(census.first_cell, census.first_cell + len(census.longest))
        share[cells] += census.totals * weight
        if weight:
            longest[cells] = np.maximum(longest[cells], census.longest)
    used = np.flatnonzero(share)
    if not len(used):
        return LengthBins(np.zeros(1, np.int64), np.zeros(0, np.int64))
    return _merged(used, share, longest, budget)


def _merged(used: Ints, share: NDArray[np.float64], longest: Ints, budget: FrameBudget) -> LengthBins:
    """Join neighbouring cells, from the longest to the shortest, until each bin is full enough."""
    _check_room(int(longest[used[-1]]), budget)
    window = _WINDOWS * budget.window_samples / fsum(share[used].tolist())
    starts, rows = [], []
    top, held = int(used[-1]), 0.0
    for cell in reversed(used.tolist()):
        top = max(top, cell) if held else cell
        held += share[cell] * window
        num_rows = _num_rows(int(longest[top]), budget)
        if held >= num_rows:
            starts.append(cell)
            rows.append(num_rows)
            held = 0.0
    if held or not starts:  # the shortest samples do not fill a bin: they join the next longer one
        if starts:
            starts.pop()
        else:
            rows.append(_num_rows(int(longest[top]), budget))
        starts.append(int(used[0]))
    ends = [*starts[::-1], int(used[-1]) + 1]
    return LengthBins(np.array(ends, np.int64), np.array(rows[::-1], np.int64))


def _num_rows(longest: int, budget: FrameBudget) -> int:
    return budget.frames // (max(1, longest) * budget.batch_multiple) * budget.batch_multiple


def _check_room(longest: int, budget: FrameBudget) -> None:
    if longest * budget.batch_multiple > budget.frames:
        raise ConfigError(
            f"frames_per_batch={budget.frames} has no room for {budget.batch_multiple} rows "
            f"(batch_multiple) of {longest} frames, the length of the longest sample: raise it to at least "
            f"{budget.batch_multiple * longest}, or crop the samples"
        )
