"""Plans batches: sorts the windows of clips by length and groups them up to a number of PCM frames. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from headrace.encoding.windows import ClipWindow


@dataclass(frozen=True, slots=True)
class ClipPiece:
    """One row of a batch: a window of a clip.

    Attributes:
        clip: position of the clip in the list of clips.
        index: number of the window in the clip.
        window: the window, in PCM frames at the encoder's rate.
    """

    clip: int
    index: int
    window: ClipWindow


@dataclass(frozen=True, slots=True)
class EncodingBatch:
    """Rows that are encoded together.

    Attributes:
        pieces: the rows, the longest first.
        padded_to: PCM frames to which the encoder itself pads every row; 0 if it does not.
    """

    pieces: tuple[ClipPiece, ...]
    padded_to: int = 0

    @property
    def num_frames(self) -> int:
        """N: PCM frames of the longest row."""
        return max(piece.window.num_frames for piece in self.pieces)

    @property
    def num_computed_frames(self) -> int:
        """PCM frames of all rows with all padding, including the encoder's own: the cost of the batch."""
        return len(self.pieces) * max(self.num_frames, self.padded_to)

    def halves(self) -> tuple["EncodingBatch", "EncodingBatch"]:
        """Two batches with half of the rows each. The batch must have at least two rows."""
        middle = len(self.pieces) // 2
        return EncodingBatch(self.pieces[:middle], self.padded_to), EncodingBatch(self.pieces[middle:], self.padded_to)


def plan_batches(
    windows: Sequence[tuple[ClipWindow, ...]], budget_frames: int, padded_to: int = 0, length_step: int = 0
) -> list[EncodingBatch]:
    """All windows of all clips in batches whose `num_computed_frames` stay within a budget, the longest rows first.

    Sorted by length, so that rows of a batch differ little; longest first, so that memory runs out at once or never.
    A row longer than the budget is a batch of its own. For `padded_to` and `length_step` see `EncoderInfo`.
    """
    pieces = [ClipPiece(i, k, window) for i, parts in enumerate(windows) for k, window in enumerate(parts)]
    pieces.sort(key=lambda piece: (-piece.window.num_frames, piece.clip, piece.index))
    batches: list[EncodingBatch] = []
    start = 0
    while start < len(pieces):
        rows = max(1, budget_frames // max(1, padded_to, pieces[start].window.num_frames))
        chosen = pieces[start : start + rows]
        if length_step:
            chosen = list(next(groupby(chosen, lambda piece: -(-piece.window.num_frames // length_step)))[1])
        batches.append(EncodingBatch(tuple(chosen), padded_to))
        start += len(chosen)
    return batches
