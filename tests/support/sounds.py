"""Creates recordings for tests: synthetic samples, and files of every format that libsndfile writes."""

import io

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from headrace.audio import AudioFormat, AudioInfo, EncodedSegment, encode_segments, plan_segments, probe

FORMATS = [
    ("WAV", "PCM_U8"),
    ("WAV", "PCM_16"),
    ("WAV", "PCM_24"),
    ("WAV", "PCM_32"),
    ("WAV", "FLOAT"),
    ("WAV", "DOUBLE"),
    ("WAV", "ULAW"),
    ("WAV", "IMA_ADPCM"),
    ("WAVEX", "PCM_24"),
    ("FLAC", "PCM_S8"),
    ("FLAC", "PCM_16"),
    ("FLAC", "PCM_24"),
    ("AIFF", "PCM_16"),
    ("AIFF", "PCM_24"),
    ("AIFF", "FLOAT"),
    ("OGG", "VORBIS"),
    ("OGG", "OPUS"),
    ("MP3", "MPEG_LAYER_III"),
    ("AU", "PCM_16"),
    ("AU", "FLOAT"),
    ("CAF", "PCM_16"),
    ("CAF", "ALAC_16"),
    ("CAF", "ALAC_24"),
    ("W64", "PCM_24"),
    ("RF64", "PCM_16"),
]
"""Container and subtype, of each kind that people bring."""


def music(num_frames: int, num_channels: int = 1, rate_hz: int = 44_100, seed: int = 0) -> NDArray[np.float64]:
    """Tones and noise, float64 (frames, channels), below half of full scale. Each channel has another sound."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(num_frames)[:, None] / rate_hz
    tones = sum(
        np.sin(2 * np.pi * f * (1 + np.arange(num_channels) / 7) * seconds) * a for f, a in ((220, 0.2), (997, 0.1))
    )
    return tones + rng.normal(size=(num_frames, num_channels)) * 0.01


def integers(num_frames: int, num_channels: int, bits: int, seed: int = 0) -> NDArray[np.int32]:
    """Noise over the whole range of `bits` with both extremes, in the upper bits of int32 as in libsndfile."""
    limit = 1 << (bits - 1)
    values = np.random.default_rng(seed).integers(-limit, limit, (num_frames, num_channels))
    if num_frames > 1:
        values[:2] = [[-limit], [limit - 1]]
    return (values << (32 - bits)).astype(np.int32)


def file_of(samples: NDArray, container: str = "WAV", subtype: str = "PCM_16", rate_hz: int = 44_100) -> bytes:
    """An audio file."""
    file = io.BytesIO()
    sf.write(file, samples, rate_hz, format=container, subtype=subtype)
    return file.getvalue()


def rate_of(subtype: str) -> int:
    """A sample rate that the subtype allows."""
    return 48_000 if subtype == "OPUS" else 44_100


def probed(data: bytes) -> AudioInfo:
    """The result of `probe` for bytes."""
    return probe(io.BytesIO(data), num_bytes=len(data))


def encoded(data: bytes, wanted: AudioFormat | None = None, **options: int) -> list[EncodedSegment]:
    """All segments of a recording."""
    wanted = wanted or AudioFormat()
    info = probed(data)
    segments = plan_segments(info.num_frames, info.sample_rate_hz, wanted)
    return list(encode_segments(io.BytesIO(data), info, wanted, segments, **options))


def pcm_of(segment: EncodedSegment) -> NDArray[np.int32]:
    """An encoded segment, decoded by a reference decoder: int32 (frames, channels), in the upper bits."""
    payload = segment.payload if isinstance(segment.payload, bytes) else segment.payload.read()
    return sf.read(io.BytesIO(payload), dtype="int32", always_2d=True)[0]
