"""The words of the audio layer as small types: what a source is, what form is wanted, what came out.

Owns names, units and the few rules that hold between fields. It opens nothing and computes no samples.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Literal

from headrace.errors import ConfigError

MAX_CHANNELS = 8
"""FLAC's limit (RFC 9639, section 9.1.3)."""
MAX_SAMPLE_RATE_HZ = 655_350
"""The largest rate that every FLAC frame header can carry (RFC 9639, section 9.1.2)."""


class Reject(StrEnum):
    """Why a recording's bytes cannot be used: the `reason` of every `AudioError` raised here."""

    EMPTY = "empty"
    """The file has no bytes."""
    TRUNCATED = "truncated"
    """The header, or the container's framing, promises more than the file holds."""
    UNDECODABLE = "undecodable"
    """A known format whose bytes are damaged: a checksum fails, a header contradicts itself."""
    UNSUPPORTED = "unsupported"
    """Not audio that libsndfile reads, or a form that the wanted shards cannot hold."""
    NON_FINITE = "non_finite"
    """A sample is NaN or infinite."""
    NO_FRAMES = "no_frames"
    """A sound header, and no audio behind it."""


_EXACT_SEEK = ("PCM_", "FLOAT", "DOUBLE")
_LINEAR_SUBTYPE = re.compile(r"(?:PCM|ALAC|DWVW)_[SU]?(\d+)")
_FLOAT_BITS = {"FLOAT": 32, "DOUBLE": 64}


def bits_of_subtype(subtype: str) -> int | None:
    """Bits of one stored sample under libsndfile's subtype name; None for companded and lossy codings.

    >>> bits_of_subtype("PCM_24"), bits_of_subtype("FLOAT"), bits_of_subtype("VORBIS"), bits_of_subtype("G723_24")
    (24, 32, None, None)
    """
    linear = _LINEAR_SUBTYPE.fullmatch(subtype)
    return int(linear[1]) if linear else _FLOAT_BITS.get(subtype)


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What a recording's header says.

    `container` and `subtype` are libsndfile's names ("WAV", "PCM_16"). `num_frames` counts instants, not samples.
    `bits_per_sample` is None for companded and lossy codings.
    """

    container: str
    subtype: str
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits_per_sample: int | None

    @property
    def duration_seconds(self) -> float:
        """Length in seconds."""
        return self.num_frames / self.sample_rate_hz

    @property
    def is_float(self) -> bool:
        """Whether samples are stored as floating point, which alone can hold NaN and values beyond full scale."""
        return self.subtype in _FLOAT_BITS

    @property
    def has_exact_seek(self) -> bool:
        """Whether a position in the middle is reached without decoding all before it.

        After a seek in a lossy coding the decoder's memory is another, and so are the samples that follow.
        """
        return self.subtype.startswith(_EXACT_SEEK)


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """The form of audio wanted in shards (`audio:` of the YAML); None keeps the source's.

    Raises:
        ConfigError: a value that FLAC cannot hold; the message names the YAML key.
    """

    sample_rate_hz: int | None = None
    num_channels: int | None = None
    bits_per_sample: Literal[16, 24] | None = None
    compression_level: int = 5
    segment_seconds: float | None = None
    last_segment: Literal["keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        """Refuse what FLAC or this library cannot do, before any file is opened."""
        rate, channels, seconds = self.sample_rate_hz, self.num_channels, self.segment_seconds
        rules = {
            f"sample_rate: expected 1 to {MAX_SAMPLE_RATE_HZ} or null, found {rate!r}": rate is None
            or 1 <= rate <= MAX_SAMPLE_RATE_HZ,
            f"num_channels: expected 1 to {MAX_CHANNELS} or null, found {channels!r}": channels is None
            or 1 <= channels <= MAX_CHANNELS,
            f"bits_per_sample: expected 16, 24 or null, found {self.bits_per_sample!r}": self.bits_per_sample
            in (16, 24, None),
            f"compression_level: expected 0 to 8, found {self.compression_level!r}": 0 <= self.compression_level <= 8,
            f"segment_seconds: expected a positive number or null, found {seconds!r}": seconds is None
            or (math.isfinite(seconds) and seconds > 0),
            f"last_segment: expected keep or drop, found {self.last_segment!r}": self.last_segment in ("keep", "drop"),
        }
        for rule, holds in rules.items():
            if not holds:
                raise ConfigError(f"audio.{rule}")

    def canonical(self) -> dict[str, int | float | str | None]:
        """The settings as plain values in a fixed order, for digests: equal dicts give equal audio."""
        return {
            "sample_rate_hz": self.sample_rate_hz,
            "num_channels": self.num_channels,
            "bits_per_sample": self.bits_per_sample,
            "compression_level": self.compression_level,
            "segment_seconds": None if self.segment_seconds is None else float(self.segment_seconds),
            "last_segment": self.last_segment,
        }

    def output_rate_hz(self, source_rate_hz: int) -> int:
        """Sample rate in the shard."""
        return self.sample_rate_hz or source_rate_hz

    def output_channels(self, info: AudioInfo) -> int:
        """Channels in the shard."""
        return self.num_channels or info.num_channels

    def output_bits(self, info: AudioInfo) -> Literal[16, 24]:
        """Bits per sample in the shard: the wanted ones, or the fewest of 16 and 24 that keep the source's.

        Lossy and companded codings give 16; 32-bit integers and floats give 24, the most that FLAC carries everywhere.
        """
        if self.bits_per_sample is not None:
            return self.bits_per_sample
        return 24 if (info.bits_per_sample or 16) > 16 else 16


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames `start_frame` to `start_frame + num_frames` of a recording, counted at the *shard's* sample rate."""

    index: int
    start_frame: int
    num_frames: int

    @property
    def stop_frame(self) -> int:
        """One past the last frame."""
        return self.start_frame + self.num_frames


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """A segment as FLAC.

    `payload` is the whole file as bytes or, where it may be large, a binary file that stands at its beginning; it is
    the consumer's to read before asking for the next segment. `copied`: the source's own bytes, not encoded again.
    """

    segment: Segment
    payload: bytes | BinaryIO
    num_bytes: int
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits_per_sample: int
    copied: bool
