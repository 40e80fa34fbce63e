"""Reads ascending windows of a recording, which may overlap. Each frame is decoded once, in bounded memory.

Also checks that the recording is complete and finite. Values are not changed.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from headrace.audio.forms import AudioInfo, AudioReject
from headrace.audio.levels import Samples, first_non_finite
from headrace.audio.opening import Sound
from headrace.audio.segments import SourceWindow
from headrace.errors import AudioError

_DECODED_AS_FLOAT = ("FLOAT", "VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III")

_BY_LIBAV = ("MP4", "MATROSKA", "ASF")


def native_dtype(info: AudioInfo) -> str:
    """The narrowest dtype in which libsndfile, or libav, decodes a source without loss."""
    if info.subtype in _DECODED_AS_FLOAT or (info.container in _BY_LIBAV and info.bits_per_sample is None):
        return "float32"
    if info.subtype == "DOUBLE":
        return "float64"
    return "int32" if (info.bits_per_sample or 16) > 16 else "int16"


class FrameReader:
    """Reads forward through an open recording.

    The last `keep` frames are kept for windows that begin before the end of the previous one. A gap between windows is
    skipped by seeking if that is exact, otherwise by decoding.
    """

    def __init__(  # noqa: PLR0913 - where it is, how much is decoded at a time, and how much is kept
        self,
        sound: Sound,
        info: AudioInfo,
        *,
        dtype: str,
        block_frames: int,
        keep: int = 0,
        skip_frames: int | None = None,
        position: int = 0,
    ) -> None:
        """Take an open recording, and the frame at which it is."""
        self._sound = sound
        self._info = info
        self._dtype = dtype
        self.block_frames = block_frames
        self._keep = keep
        self._skip_frames = skip_frames or block_frames  # decoded at a time in a gap
        self._position = position
        self._tail: Samples = np.empty((0, info.num_channels), dtype)

    def blocks(self, start: int, stop: int) -> Iterator[Samples]:
        """Frames `start` to `stop`, or to the recording's end, in blocks (frames, channels) of at most the block size.

        Raises:
            AudioError: `truncated`, `undecodable` or `non_finite`; the message names the frame.
            ValueError: the window begins before the kept frames.
        """
        stop = min(stop, self._info.num_frames)
        self._advance_to(start)
        if start < self._position:
            first = start - (self._position - len(self._tail))
            if first < 0:
                raise ValueError(f"frame {start} requested after frame {self._position}: windows must be ascending")
            yield self._tail[first : first + stop - start]
        while self._position < stop:
            yield self._next(min(self.block_frames, stop - self._position))

    def _advance_to(self, start: int) -> None:
        if start > self._position and self._info.has_exact_seek:
            self._sound.seek(start)
            self._position = start
            self._tail = self._tail[:0]
        while self._position < start:
            self._next(min(self._skip_frames, start - self._position))

    def _next(self, num_frames: int) -> Samples:
        block: Samples = self._sound.read(num_frames, self._dtype)
        if len(block) < num_frames:
            raise AudioError(
                AudioReject.TRUNCATED,
                f"truncated: the header promises {self._info.num_frames} frames, decoding ends after "
                f"{self._position + len(block)}; fetch the recording again",
            )
        if block.dtype.kind == "f" and (bad := first_non_finite(block)) is not None:
            raise AudioError(
                AudioReject.NON_FINITE,
                f"frame {self._position + bad} is NaN or infinite; repair or remove the recording",
            )
        self._position += num_frames
        if self._keep:
            self._tail = np.concatenate([self._tail, block])[-self._keep :]
        return block


def overlap_of(windows: Sequence[SourceWindow]) -> int:
    """The most frames that a window shares with the windows before it."""
    overlap = reached = 0
    for window in windows:
        overlap = max(overlap, reached - window.start_frame)
        reached = max(reached, window.stop_frame)
    return overlap


def covers(windows: Sequence[SourceWindow], num_frames: int) -> bool:
    """Whether ascending windows contain all frames from 0 to `num_frames`."""
    reached = 0
    for window in windows:
        if window.start_frame > reached:
            return False
        reached = max(reached, window.stop_frame)
    return reached >= num_frames


def read_to_end(reader: FrameReader, num_frames: int) -> None:
    """Decode a recording and drop the samples, to check that it is complete and finite."""
    for _ in reader.blocks(0, num_frames):
        pass
