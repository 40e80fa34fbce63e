"""Reads a range of a sample's audio as float32, in the sample rate and channels that an encoder takes.

A range of a long recording is read by seeking. Its values equal those of the same range in the whole recording after
decoding, mixing and resampling.
"""

import math
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import soxr

from headrace.audio import decode_into
from headrace.errors import AudioError, SampleError
from headrace.stores.client_errors import translated_errors

FloatSamples = np.ndarray[tuple[int, int], np.dtype[np.float32]]

_READ_BYTES = 16 << 20
_GUARD_SECONDS = 0.25  # of source audio on both sides of a range: soxr HQ's filter is a tenth of that


class DecodedFrames:
    """All frames of a clip, decoded when the first of them are read; safe for threads.

    A long clip is read in many ranges. In other codecs than FLAC, each would have to be decoded from the clip's
    beginning, which would take a time that grows with the square of the length. It is decoded into an unnamed file. A
    clip that several encoders read is decoded into memory.
    """

    def __init__(self, *, in_memory: bool = False) -> None:
        """Decode nothing yet."""
        self._in_memory = in_memory
        self._lock = threading.Lock()
        self._samples: FloatSamples | None = None

    def of(self, clip: "AudioClip") -> FloatSamples:
        """The frames, float32 (C, num_frames). Always call it with the same clip."""
        with self._lock:
            if self._samples is None:
                with _payload(clip) as data:
                    samples = self._empty((clip.num_channels, clip.num_frames))
                    decode_into(data, samples)
                self._samples = samples
            return self._samples

    def _empty(self, shape: tuple[int, int]) -> FloatSamples:
        if self._in_memory:
            return np.empty(shape, np.float32)
        with tempfile.TemporaryFile() as file:
            return cast("FloatSamples", np.memmap(file, np.float32, "w+", shape=shape))


@dataclass(frozen=True, slots=True)
class AudioClip:
    """One sample of an audio shard on a local disk.

    Attributes:
        shard: file name of the shard, for messages.
        path: path of the tar.
        key: key of the sample.
        span: half-open byte range of the sample's audio in the tar.
        num_frames: PCM frames of the audio.
        sample_rate_hz: sample rate of the audio.
        num_channels: channels of the audio.
        decoded: for a long clip in a codec in which a range cannot be decoded by itself, and for a clip that several
            encoders read; None for all others.
    """

    shard: str
    path: Path
    key: str
    span: tuple[int, int]
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    decoded: DecodedFrames | None = field(default=None, compare=False, repr=False)

    @property
    def seconds(self) -> float:
        """Length of the sample."""
        return self.num_frames / self.sample_rate_hz

    def num_frames_at(self, sample_rate_hz: int) -> int:
        """PCM frames after resampling, at least 1."""
        return max(1, round(self.num_frames * sample_rate_hz / self.sample_rate_hz))


@dataclass(frozen=True, slots=True)
class AudioForm:
    """Sample rate and channels that an encoder takes."""

    sample_rate_hz: int
    num_channels: int


def read_clip(clip: AudioClip, form: AudioForm, start: int, stop: int) -> FloatSamples:
    """PCM frames `start` to `stop` of a clip in the encoder's form: float32 (C, stop - start).

    Raises:
        SampleError: the clip cannot be decoded, ends early, or has channels that cannot be mixed to the encoder's.
    """
    try:
        with _payload(clip) if clip.decoded is None else nullcontext(b"") as data:
            return _resampled(data, clip, form, start, stop)
    except (AudioError, ValueError, OSError) as error:
        raise _undecodable(clip, error) from error


def _undecodable(clip: AudioClip, error: Exception) -> SampleError:
    return SampleError(f"{clip.shard}: sample {clip.key!r} cannot be decoded ({error}); build its audio shard again")


@contextmanager
def _payload(clip: AudioClip) -> Iterator[bytes | memoryview]:
    """The clip's audio file. A long one is mapped into memory, so that only the wanted range is read."""
    start, stop = clip.span
    with ExitStack() as stack:
        with translated_errors(clip.path.name, str(clip.path.parent)):
            file = stack.enter_context(clip.path.open("rb"))
            short = os.pread(file.fileno(), stop - start, start) if stop - start <= _READ_BYTES else None
        if short is not None:
            yield short
            return
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as whole,
            whole[start:stop] as data,
        ):
            yield data


def _resampled(data: bytes | memoryview, clip: AudioClip, form: AudioForm, start: int, stop: int) -> FloatSamples:
    """The range in the encoder's form, (C, stop - start)."""
    rate_hz = form.sample_rate_hz
    if rate_hz == clip.sample_rate_hz:
        return _decoded(data, clip, form, start, stop)
    divisor = math.gcd(rate_hz, clip.sample_rate_hz)
    period_out, period_in = rate_hz // divisor, clip.sample_rate_hz // divisor  # frames of equal duration
    guard = -(-round(_GUARD_SECONDS * rate_hz) // period_out)
    first = max(0, start // period_out - guard)
    last = -(-stop // period_out) + guard
    source = _decoded(data, clip, form, first * period_in, min(last * period_in, clip.num_frames))
    out = soxr.resample(source.T, clip.sample_rate_hz, rate_hz, quality="HQ")
    wanted = out[start - first * period_out : stop - first * period_out]
    missing = stop - start - len(wanted)  # at most the last frame, by rounding
    return np.ascontiguousarray(np.pad(wanted, ((0, missing), (0, 0))).T)


def _decoded(data: bytes | memoryview, clip: AudioClip, form: AudioForm, start: int, stop: int) -> FloatSamples:
    """The range at the shard's rate, mixed: (C, stop - start). Mixing first halves the time to resample stereo."""
    if clip.decoded is not None:
        return _mixed(np.asarray(clip.decoded.of(clip)[:, start:stop]), clip, form.num_channels)
    samples = np.empty((clip.num_channels, stop - start), np.float32)
    decode_into(data, samples, start)
    return _mixed(samples, clip, form.num_channels)


def _mixed(samples: FloatSamples, clip: AudioClip, num_channels: int) -> FloatSamples:
    """Samples with `num_channels` channels: the mean of all for one channel; one channel is repeated for several."""
    found = samples.shape[0]
    if found == num_channels:
        return samples
    if num_channels == 1:
        mixed: FloatSamples = samples.mean(axis=0, keepdims=True, dtype=np.float32)
        return mixed
    if found == 1:
        return np.repeat(samples, num_channels, axis=0)
    raise SampleError(
        f"{clip.shard}: sample {clip.key!r} has {found} channels and the encoder takes {num_channels}; "
        f"set audio.num_channels to 1 or {num_channels}"
    )
