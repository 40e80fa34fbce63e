"""Frames of a source, in ascending windows that may overlap, decoded once and in bounded memory.

Owns what is read, in which dtype, and the proof that it is whole and finite. It changes no values.
"""

from collections.abc import Iterator

import numpy as np

from headrace.audio.forms import AudioInfo, Reject
from headrace.audio.levels import Samples, first_non_finite
from headrace.audio.sound import ForwardSound
from headrace.errors import AudioError

_DECODED_AS_FLOAT = ("FLOAT", "VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III")


def native_dtype(info: AudioInfo) -> str:
    """The narrowest dtype of libsndfile's that loses nothing of a source."""
    if info.subtype in _DECODED_AS_FLOAT:
        return "float32"
    if info.subtype == "DOUBLE":
        return "float64"
    return "int32" if (info.bits_per_sample or 16) > 16 else "int16"


class FrameReader:
    """Reads forward through an open recording.

    `keep` is how many frames before the current position stay at hand for a window that begins before the last one
    ended. A gap between windows is skipped by seeking where that is exact, by decoding otherwise.
    """

    def __init__(self, sound: ForwardSound, info: AudioInfo, *, dtype: str, block_frames: int, keep: int = 0) -> None:
        self._sound = sound
        self._info = info
        self._dtype = dtype
        self._block_frames = block_frames
        self._keep = keep
        self._position = 0
        self._tail: Samples = np.empty((0, info.num_channels), dtype)

    def blocks(self, start: int, stop: int) -> Iterator[Samples]:
        """Frames `start` to `stop`, or to the recording's end, as (frames, channels) of at most the block size.

        Raises:
            AudioError: `truncated`, `undecodable` or `non_finite`, naming the frame.
            ValueError: the window begins before what is still at hand.
        """
        stop = min(stop, self._info.num_frames)
        self._advance_to(start)
        if start < self._position:
            first = start - (self._position - len(self._tail))
            if first < 0:
                raise ValueError(f"frame {start} asked for after frame {self._position}: windows must ascend")
            yield self._tail[first : first + stop - start]
        while self._position < stop:
            yield self._next(min(self._block_frames, stop - self._position))

    def _advance_to(self, start: int) -> None:
        if start > self._position and self._info.has_exact_seek:
            self._sound.seek(start)
            self._position = start
            self._tail = self._tail[:0]
        while self._position < start:
            self._next(min(self._block_frames, start - self._position))

    def _next(self, num_frames: int) -> Samples:
        block: Samples = self._sound.read(num_frames, dtype=self._dtype, always_2d=True)
        if len(block) < num_frames:
            raise AudioError(
                Reject.TRUNCATED,
                f"cut off: {self._info.num_frames} frames promised, decoding ends after "
                f"{self._position + len(block)}; fetch the recording again",
            )
        if block.dtype.kind == "f" and (bad := first_non_finite(block)) is not None:
            raise AudioError(
                Reject.NON_FINITE, f"frame {self._position + bad} is NaN or infinite; mend or remove the recording"
            )
        self._position += num_frames
        if self._keep:
            self._tail = np.concatenate([self._tail, block])[-self._keep :]
        return block


def overlap_of(windows: list[tuple[int, int]]) -> int:
    """The most frames that a window shares with what came before it."""
    overlap = reached = 0
    for start, stop in windows:
        overlap = max(overlap, reached - start)
        reached = max(reached, stop)
    return overlap


def read_to_end(reader: FrameReader, num_frames: int) -> None:
    """Decode a recording and drop it: the proof that it is whole and finite."""
    for _ in reader.blocks(0, num_frames):
        pass
