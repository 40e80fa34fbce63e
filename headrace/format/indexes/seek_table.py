"""Seek points of the long audio files of a shard, as two arrays of its index (`headrace.audio.seek_points`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

GRID, PLACES = "seek_grid", "seek_places"
_NUM_CODINGS = 4
_MOST_FRAMES, _MOST_STEP = 1 << 31, 1 << 17
_NO_PLACES = np.empty(0, np.int64)


class StoredPoints(NamedTuple):
    """Seek points of one audio field, with the attributes of `headrace.audio.SeekPoints`."""

    coding: int
    first: int
    step: int
    places: np.ndarray[Any, np.dtype[np.int64]]


class SeekTable(NamedTuple):
    """Seek points of all samples.

    Attributes:
        grid: int64 (n, num_audio_fields, 4): coding, first frame, step and number of the points of each audio field;
            zeros for a field without points.
        places: int32 or int64, the places of all points, one field after the other: bytes in the member.
    """

    grid: np.ndarray[Any, np.dtype[np.int64]]
    places: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def of(cls, points: Sequence[Sequence[StoredPoints | None]]) -> "SeekTable | None":
        """The table of the points of each audio field of each sample; None if no field has points."""
        if not any(found for row in points for found in row):
            return None
        none = StoredPoints(0, 0, 0, _NO_PLACES)
        rows = [[found or none for found in row] for row in points]
        grid = [[(*found[:3], len(found.places)) for found in row] for row in rows]
        places = np.concatenate([found.places for row in rows for found in row])
        is_small = places.max(initial=0) <= np.iinfo(np.int32).max
        return cls(np.array(grid, np.int64), places.astype(np.int32 if is_small else np.int64))

    def points(self, row: int, field: int) -> StoredPoints | None:
        """The points of an audio field of a sample; None if it has none."""
        coding, first, step, count = self.grid[row, field].tolist()
        if not count:
            return None
        begin = int(self.grid[:row, :, 3].sum() + self.grid[row, :field, 3].sum())
        return StoredPoints(coding, first, step, self.places[begin : begin + count].astype(np.int64))

    def equals(self, other: "SeekTable | None") -> bool:
        """Whether another table has the same points."""
        return other is not None and all(map(np.array_equal, self, other))

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays of an `.idx` file by name."""
        return {GRID: self.grid, PLACES: self.places}

    def flaw(self, sizes: np.ndarray[Any, np.dtype[np.int64]]) -> str | None:
        """The first contradiction as a sentence; None for sound points.

        Args:
            sizes: int64 (n, num_audio_fields), bytes of each audio field; 0 if a sample lacks it.
        """
        grid, places = self.grid, self.places
        if grid.shape != (*sizes.shape, 4) or grid.dtype != np.int64 or places.dtype not in (np.int32, np.int64):
            return f"seek points of {sizes.shape} audio fields need a grid of them, found {grid.dtype} {grid.shape}"
        codings, firsts, steps, counts = grid.reshape(-1, 4).T
        if places.ndim != 1 or (counts < 0).any() or (counts > places.size).any() or counts.sum() != places.size:
            return f"the numbers of seek points do not fit {places.size} places"
        is_known = (codings > 0) & (codings <= _NUM_CODINGS) & (steps > 0) & (steps < _MOST_STEP)
        is_known &= (firsts > -_MOST_FRAMES) & (firsts < _MOST_FRAMES)
        if not np.where(counts > 0, is_known, (grid.reshape(-1, 4) == 0).all(1)).all():
            return "seek points of no known coding, or on no grid"
        owner = np.repeat(np.arange(counts.size), counts)
        is_inside = (places >= 0) & (places < sizes.reshape(-1)[owner])
        rises = (np.diff(places) >= 0) | (np.diff(owner) > 0)
        return None if is_inside.all() and rises.all() else "seek points outside of their files, or in another order"
