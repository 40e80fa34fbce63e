"""Types that describe audio: a recording, the wanted format, a segment, an encoded segment, reasons for rejection."""

import math
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Literal

from headrace.errors import ConfigError

MAX_CHANNELS = 8
"""FLAC's limit (RFC 9639, section 9.1.3)."""
MAX_SAMPLE_RATE_HZ = 655_350
"""The largest rate that every FLAC frame header can carry (RFC 9639, section 9.1.2)."""
OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
"""The sample rates that an Opus encoder takes (RFC 6716, section 2)."""
OPUS_BITRATES = (6_000, 256_000)
"""Least and largest bit rate of libsndfile's Opus encoder, in bits per second for each channel."""
MAX_OPUS_CHANNELS = 2
"""Of more channels, the encoder takes one for low frequencies and drops the rest of its band."""
DEFAULT_OPUS_BITRATE = 64_000
"""Bits per second for each channel."""


class Codec(StrEnum):
    """Storage form of the audio of a sample."""

    FLAC = "flac"
    OPUS = "opus"
    COPY = "copy"
    """The bytes of the source where a sample is a whole recording in the wanted form; FLAC for all others."""


class AudioReject(StrEnum):
    """Why a recording is rejected: the `reason` of every `AudioError` that this package raises."""

    EMPTY = "empty"
    """The file has no bytes."""
    TRUNCATED = "truncated"
    """The file is shorter than its header, or its container's framing, says."""
    UNDECODABLE = "undecodable"
    """The file has a known format and is damaged: a checksum is wrong, or a header contradicts itself."""
    UNSUPPORTED = "unsupported"
    """The file is not audio that libsndfile reads, or cannot be converted to the wanted format."""
    NON_FINITE = "non_finite"
    """A sample is NaN or infinite."""
    NO_FRAMES = "no_frames"
    """The header is valid, but there is no audio after it."""
    TRANSFORM_FAILED = "transform_failed"
    """The function of `audio.transform` failed, or returned something else than audio."""
    FIELDS_DIFFER = "fields_differ"
    """The audio fields of one sample differ in sample rate or length."""


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
    """Facts of a recording's header.

    Attributes:
        container: libsndfile's name of the container, for example `WAV`.
        subtype: libsndfile's name of the coding, for example `PCM_16`.
        num_frames: length; a frame has one sample of each channel.
        sample_rate_hz: sample rate.
        num_channels: channels.
        bits_per_sample: bits of a stored sample; None for companded and lossy codings.
    """

    container: str
    subtype: str
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits_per_sample: int | None

    @property
    def is_float(self) -> bool:
        """Whether samples are stored as floating point; only these can be NaN or exceed full scale."""
        return self.subtype in _FLOAT_BITS

    @property
    def has_exact_seek(self) -> bool:
        """Whether samples after a seek equal those that are decoded from the beginning.

        In lossy codings they do not, because they depend on the decoder's state.
        """
        return self.subtype.startswith(_EXACT_SEEK)


@dataclass(frozen=True, slots=True)
class Transform:
    """A function of the user that every sample's audio goes through (`headrace.audio.transform` calls it).

    Attributes:
        function: `module:function`.
        fingerprint: text that the user changes when the results change.
    """

    function: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """The wanted format of audio in shards (`audio` in the YAML). A field that is None keeps the source's value.

    `bitrate` is in bits per second for each channel, for Opus only; None takes `DEFAULT_OPUS_BITRATE`. `transform` is
    applied to a sample's audio before the conversion to this format.

    Raises:
        ConfigError: the codec does not support a value; the message names the YAML key.
    """

    sample_rate_hz: int | None = None
    num_channels: int | None = None
    bits_per_sample: Literal[16, 24] | None = None
    compression_level: int = 5
    segment_seconds: float | None = None
    last_segment: Literal["keep", "drop"] = "keep"
    codec: Codec = Codec.FLAC
    bitrate: int | None = None
    transform: Transform | None = None

    def __post_init__(self) -> None:
        """Check every value, before any file is opened."""
        rate, channels, seconds = self.sample_rate_hz, self.num_channels, self.segment_seconds
        if self.codec not in tuple(Codec):
            raise ConfigError(f"audio.codec: expected {', '.join(Codec)}, found {self.codec!r}")
        object.__setattr__(self, "codec", Codec(self.codec))
        is_opus = self.codec is Codec.OPUS
        least, most = OPUS_BITRATES
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
            f"sample_rate: Opus has {', '.join(map(str, OPUS_RATES_HZ))} Hz, found {rate!r}": not is_opus
            or rate in {None, *OPUS_RATES_HZ},
            f"num_channels: Opus has 1 or 2, found {channels!r}": not is_opus or (channels or 1) <= MAX_OPUS_CHANNELS,
            f"bits_per_sample: Opus has no bit depth; leave it out, found {self.bits_per_sample!r}": not is_opus
            or self.bits_per_sample is None,
            "transform: not with codec: copy, which keeps the bytes of recordings; set codec: flac": (
                self.transform is None or self.codec is not Codec.COPY
            ),
            f"bitrate: for codec opus only; leave it out, or set codec: opus, found {self.bitrate!r}": is_opus
            or self.bitrate is None,
            f"bitrate: expected {least} to {most} bits per second for each channel, or null, found {self.bitrate!r}": (
                self.bitrate is None or least <= self.bitrate <= most
            ),
        }
        for rule, holds in rules.items():
            if not holds:
                raise ConfigError(f"audio.{rule}")

    def canonical(self) -> dict[str, Any]:
        """The settings as plain values in a fixed order, for digests."""
        return {
            **({} if self.transform is None else {"transform": asdict(self.transform)}),
            "sample_rate_hz": self.sample_rate_hz,
            "num_channels": self.num_channels,
            "bits_per_sample": self.bits_per_sample,
            "compression_level": self.compression_level,
            "segment_seconds": None if self.segment_seconds is None else float(self.segment_seconds),
            "last_segment": self.last_segment,
            "codec": self.codec.value,
            "bitrate": self.opus_bitrate if self.codec is Codec.OPUS else None,
        }

    @property
    def opus_bitrate(self) -> int:
        """Bits per second for each channel of an Opus stream."""
        return self.bitrate or DEFAULT_OPUS_BITRATE

    def output_rate_hz(self, source_rate_hz: int) -> int:
        """Sample rate in the shard, for a source of this rate."""
        return self.sample_rate_hz or source_rate_hz

    def output_channels(self, info: AudioInfo) -> int:
        """Channels in the shard, for this source."""
        return self.num_channels or info.num_channels

    def output_bits(self, info: AudioInfo) -> Literal[16, 24]:
        """Bits per sample in the shard: as set, or else 16 or 24, whichever is enough for the source.

        Lossy and companded codings get 16. 32-bit integers and floats get 24, the most that all FLAC decoders support.
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


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Frames `start_frame` to `stop_frame` of a recording, counted at the *recording's own* sample rate.

    `channels` are numbers of channels, from 0, in the order that they get; empty for all.
    """

    start_frame: int
    stop_frame: int
    channels: tuple[int, ...] = ()

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return self.stop_frame - self.start_frame


class AudioOrigin(StrEnum):
    """Origin of the bytes of a sample's audio."""

    ENCODER = "encoded"
    """They were encoded."""
    RECORDING = "as recorded"
    """They are the recording's own bytes."""
    SHARD = "taken over"
    """They are those of an existing shard."""


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """A segment or span in its codec.

    Attributes:
        payload: the audio file, as bytes; or, if it may be large, as a binary file at position 0, which has to be read
            before the next segment is requested.
        num_bytes: size of the payload.
        num_frames: length.
        sample_rate_hz: sample rate.
        num_channels: channels.
        bits_per_sample: bits of a stored sample; None for lossy and companded codings.
        extension: name of the sample's field, which says what the payload is: `flac`, `opus`, `mp3`, `ogg`, `wav`.
        origin: where the bytes come from.
        crc32: CRC-32 of the payload, if it is known.
    """

    payload: bytes | BinaryIO
    num_bytes: int
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    bits_per_sample: int | None
    extension: str = "flac"
    origin: AudioOrigin = AudioOrigin.ENCODER
    crc32: int | None = None
