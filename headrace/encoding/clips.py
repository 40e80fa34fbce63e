"""Reading a stretch of a sample's audio in the form that an encoder takes.

Owns decoding, mixing and resampling for encoders: float32 at the encoder's rate and channels. A stretch of a long
recording is read by seeking, and is what the same stretch of the whole recording would be.
"""

import math
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr

from headrace.audio import decode_flac_into
from headrace.errors import AudioError, SampleError

Samples = np.ndarray[tuple[int, int], np.dtype[np.float32]]

_READ_BYTES = 16 << 20
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
        SampleError: it cannot be decoded, ends early, or has channels that cannot be mixed to the encoder's.
    """
    try:
        with _payload(clip) as data:
            return _resampled(data, clip, form, start, stop)
    except (AudioError, ValueError, OSError) as error:
        raise SampleError(
            f"{clip.shard}: sample {clip.key!r} cannot be decoded ({error}); build its audio shard again"
        ) from error


@contextmanager
def _payload(clip: Clip) -> Iterator[bytes | memoryview]:
    """The clip's FLAC stream: short ones are read, long ones mapped, so that a stretch costs what it is long."""
    start, stop = clip.span
    with clip.path.open("rb") as file:
        if stop - start <= _READ_BYTES:
            yield os.pread(file.fileno(), stop - start, start)
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as whole,
            whole[start:stop] as data,
        ):
            yield data


def _resampled(data: bytes | memoryview, clip: Clip, form: AudioForm, start: int, stop: int) -> Samples:
    """(C, stop - start) in the encoder's form."""
    rate_hz = form.sample_rate_hz
    if rate_hz == clip.sample_rate_hz:
        return _decoded(data, clip, form, start, stop)
    divisor = math.gcd(rate_hz, clip.sample_rate_hz)
    period_out, period_in = rate_hz // divisor, clip.sample_rate_hz // divisor  # where both grids meet
    guard = -(-round(_GUARD_SECONDS * rate_hz) // period_out)
    first = max(0, start // period_out - guard)
    last = -(-stop // period_out) + guard
    source = _decoded(data, clip, form, first * period_in, min(last * period_in, clip.num_frames))
    out = soxr.resample(source.T, clip.sample_rate_hz, rate_hz, quality="HQ")
    wanted = out[start - first * period_out : stop - first * period_out]
    missing = stop - start - len(wanted)  # rounding of the last frame
    return np.ascontiguousarray(np.pad(wanted, ((0, missing), (0, 0))).T)


def _decoded(data: bytes | memoryview, clip: Clip, form: AudioForm, start: int, stop: int) -> Samples:
    """(C, stop - start) at the shard's rate, mixed already: one channel is resampled in half the time of two."""
    samples = np.empty((clip.num_channels, stop - start), np.float32)
    decode_flac_into(data, samples, start, stop - start)
    return _mixed(samples, clip, form.num_channels)


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
