"""Plans batches: sorts the windows of clips by length and groups them up to a number of PCM frames. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        rounded_within: the most PCM frames to which `num_frames` is rounded up; 0 if it is not.
    """

    pieces: tuple[ClipPiece, ...]
    padded_to: int = 0
    rounded_within: int = 0

    @property
    def num_frames(self) -> int:
        """N: PCM frames of the longest row, rounded up if wanted."""
        longest = max(piece.window.num_frames for piece in self.pieces)
        return max(longest, min(rounded_up(longest), self.rounded_within))

    @property
    def num_computed_frames(self) -> int:
        """PCM frames of all rows with all padding, including the encoder's own: the cost of the batch."""
        return len(self.pieces) * max(self.num_frames, self.padded_to)

    def halves(self) -> tuple["EncodingBatch", "EncodingBatch"]:
        """Two batches with half of the rows each. The batch must have at least two rows."""
        middle = len(self.pieces) // 2
        return replace(self, pieces=self.pieces[:middle]), replace(self, pieces=self.pieces[middle:])


def rounded_up(num_frames: int) -> int:
    """A length of which there are 32 in an octave, 1.6% longer on average.

    >>> rounded_up(63), rounded_up(64), rounded_up(65), rounded_up(1025)
    (63, 64, 66, 1056)
    """
    step = 1 << max(0, num_frames.bit_length() - 6)
    return -(-num_frames // step) * step


def plan_batches(
    windows: Sequence[tuple[ClipWindow, ...]],
    budget_frames: int,
    padded_to: int = 0,
    *,
    length_step: int = 0,
    rounded_within: int = 0,
) -> list[EncodingBatch]:
    """All windows of all clips in batches whose `num_computed_frames` stay within a budget, the longest rows first.

    Sorted by length, so that rows of a batch differ little; longest first, so that memory runs out at once or never.
    A row longer than the budget is a batch of its own. For `padded_to` and `length_step` see `EncoderInfo`. With
    `rounded_within` batches have few shapes: a GPU's libraries prepare for each shape, which takes up to half of the
    time of a batch.
    """
    pieces = [ClipPiece(i, k, window) for i, parts in enumerate(windows) for k, window in enumerate(parts)]
    pieces.sort(key=lambda piece: (-piece.window.num_frames, piece.clip, piece.index))
    batches: list[EncodingBatch] = []
    start = 0
    while start < len(pieces):
        longest = EncodingBatch((pieces[start],), padded_to, rounded_within)
        rows = max(1, budget_frames // max(1, longest.num_computed_frames))
        chosen = pieces[start : start + rows]
        if length_step:
            chosen = list(next(groupby(chosen, lambda piece: -(-piece.window.num_frames // length_step)))[1])
        batches.append(replace(longest, pieces=tuple(chosen)))
        start += len(chosen)
    return batches
