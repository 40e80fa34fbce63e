"""Which pieces of which clips are encoded together: sorted by length under a budget of seconds. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.encoding.windows import Window


@dataclass(frozen=True, slots=True)
class Piece:
    """One row of a batch: a window of a clip.

    Attributes:
        clip: which clip, by its place in the list that was planned.
        index: which of its windows.
        window: PCM frames at the encoder's rate.
    """

    clip: int
    index: int
    window: Window


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are encoded together, the longest first."""

    pieces: tuple[Piece, ...]

    @property
    def num_frames(self) -> int:
        """N: PCM frames of the longest row."""
        return max(piece.window.num_frames for piece in self.pieces)

    @property
    def num_valid_frames(self) -> int:
        """PCM frames of all rows without padding."""
        return sum(piece.window.num_frames for piece in self.pieces)

    def halves(self) -> tuple["Batch", "Batch"]:
        """Two batches of half the rows; there are at least two."""
        middle = len(self.pieces) // 2
        return Batch(self.pieces[:middle]), Batch(self.pieces[middle:])


def plan_batches(windows: Sequence[tuple[Window, ...]], budget_frames: int) -> list[Batch]:
    """All windows of all clips in batches whose padded size stays within `budget_frames`, the longest rows first.

    Sorted by length, so that rows of a batch differ little; longest first, so that memory runs out at once or never.
    A row longer than the budget is a batch of its own.
    """
    pieces = [Piece(i, k, window) for i, parts in enumerate(windows) for k, window in enumerate(parts)]
    pieces.sort(key=lambda piece: (-piece.window.num_frames, piece.clip, piece.index))
    batches: list[Batch] = []
    start = 0
    while start < len(pieces):
        rows = max(1, budget_frames // max(1, pieces[start].window.num_frames))
        batches.append(Batch(tuple(pieces[start : start + rows])))
        start += rows
    return batches
