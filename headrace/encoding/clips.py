"""Reading a stretch of a sample's audio in the form that an encoder takes.

Owns decoding, mixing and resampling for encoders: float32 at the encoder's rate and channels. A stretch of a long
recording is read by seeking, and is what the same stretch of the whole recording would be.
"""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import soundfile
import soxr

from headrace.errors import SampleError

Samples = np.ndarray[tuple[int, int], np.dtype[np.float32]]

_GUARD_SECONDS = 0.25  # of source audio on both sides of a stretch: soxr HQ's filter is a tenth of that


@dataclass(frozen=True, slots=True)
class Clip:
    """One sample of an audio shard, on this machine's disk.

    Attributes:
        shard: the tar's file name, for messages.
        path: the tar.
        key: the sample's.
        span: half-open byte range of its audio in the tar.
        num_frames: PCM frames in the shard.
        sample_rate_hz: in the shard.
        num_channels: in the shard.
    """

    shard: str
    path: Path
    key: str
    span: tuple[int, int]
    num_frames: int
    sample_rate_hz: int
    num_channels: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.num_frames / self.sample_rate_hz

    def num_frames_at(self, sample_rate_hz: int) -> int:
        """PCM frames after resampling, at least 1."""
        return max(1, round(self.num_frames * sample_rate_hz / self.sample_rate_hz))


@dataclass(frozen=True, slots=True)
class AudioForm:
    """What an encoder takes."""

    sample_rate_hz: int
    num_channels: int


def read_clip(clip: Clip, form: AudioForm, start: int, stop: int) -> Samples:
    """Float32 (C, stop - start): PCM frames `start` to `stop` of the clip in the encoder's form.

    Raises:
        SampleError: it cannot be decoded, ends early, holds numbers that are not finite, or has channels that cannot be
            mixed to the encoder's.
    """
    try:
        with _Member(clip.path, clip.span) as member, soundfile.SoundFile(member) as file:
            samples = _resampled(file, clip, form.sample_rate_hz, start, stop)
    except (soundfile.LibsndfileError, OSError) as error:
        raise SampleError(
            f"{clip.shard}: sample {clip.key!r} cannot be decoded ({error}); build its audio shard again"
        ) from error
    if not np.isfinite(samples).all():
        raise SampleError(f"{clip.shard}: sample {clip.key!r} holds numbers that are not finite")
    return _mixed(samples, clip, form.num_channels)


def _resampled(file: soundfile.SoundFile, clip: Clip, rate_hz: int, start: int, stop: int) -> Samples:
    """(source channels, stop - start) at `rate_hz`."""
    if rate_hz == clip.sample_rate_hz:
        return np.ascontiguousarray(_read(file, clip, start, stop).T)
    divisor = np.gcd(rate_hz, clip.sample_rate_hz)
    period_out, period_in = rate_hz // divisor, clip.sample_rate_hz // divisor  # where both grids meet
    guard = -(-round(_GUARD_SECONDS * rate_hz) // period_out)
    first = max(0, start // period_out - guard)
    last = -(-stop // period_out) + guard
    source = _read(file, clip, first * period_in, min(last * period_in, clip.num_frames))
    out = soxr.resample(source, clip.sample_rate_hz, rate_hz, quality="HQ")
    wanted = out[start - first * period_out : stop - first * period_out]
    missing = stop - start - len(wanted)  # rounding of the last frame
    return np.ascontiguousarray(np.pad(wanted, ((0, missing), (0, 0))).T)


def _read(file: soundfile.SoundFile, clip: Clip, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(frames, source channels).

    Raises:
        SampleError: fewer frames come than the index promises.
    """
    if start:
        file.seek(start)
    samples: np.ndarray[Any, np.dtype[np.float32]] = file.read(stop - start, dtype="float32", always_2d=True)
    if len(samples) != stop - start:
        found = f"frames {start}..{stop} asked for, {len(samples)} came"
        raise SampleError(f"{clip.shard}: sample {clip.key!r} ends early ({found}); build its audio shard again")
    return samples


def _mixed(samples: Samples, clip: Clip, num_channels: int) -> Samples:
    """Any number to one by their mean, one to any number by repeating it."""
    found = samples.shape[0]
    if found == num_channels:
        return samples
    if num_channels == 1:
        mixed: Samples = samples.mean(axis=0, keepdims=True, dtype=np.float32)
        return mixed
    if found == 1:
        return np.repeat(samples, num_channels, axis=0)
    raise SampleError(
        f"{clip.shard}: sample {clip.key!r} has {found} channels and the encoder takes {num_channels}; "
        f"set audio.num_channels to 1 or {num_channels}"
    )


class _Member(io.RawIOBase):
    """A member of a tar as a file of its own, short ones read at once."""

    _WHOLE_BYTES = 16 << 20

    def __init__(self, path: Path, span: tuple[int, int]) -> None:
        self._start, self._stop = span
        self._position = 0
        self._file: BinaryIO = path.open("rb")
        if self._stop - self._start <= self._WHOLE_BYTES:
            blob = os.pread(self._file.fileno(), self._stop - self._start, self._start)
            self._file.close()
            self._file, self._start, self._stop = io.BytesIO(blob), 0, len(blob)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the buffer protocol has no type before Python 3.12
        size = min(len(buffer), self._stop - self._start - self._position)
        self._file.seek(self._start + self._position)
        data = self._file.read(max(0, size))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._stop - self._start}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position
