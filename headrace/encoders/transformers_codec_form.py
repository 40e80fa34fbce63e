"""Hop, chunks, padding and windows of a codec of `kind: transformers`, by its configuration.

Computes nothing of audio.
"""

from dataclasses import dataclass
from typing import Any

from headrace.encoders import running
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import WindowSeconds
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.output_kinds import CONTEXT_SECONDS

_WINDOW_SECONDS = 30.0
_CONTEXTS_IN_A_WINDOW = 12  # of models with a long context: two of them are encoded twice
_MIRRORED_HOPS = 32  # enough for every layer of EnCodec to mirror the start of the row


@dataclass(frozen=True, slots=True)
class CodecForm:
    """Facts of a codec's configuration.

    Attributes:
        sample_rate_hz, num_channels: of the input.
        hop: PCM frames of one frame.
        chunk, stride: length and distance of chunks that the model encodes each by itself; both `hop` without chunks.
        is_causal: whether right padding changes nothing before it.
        mirrors: whether layers mirror the beginning of their input.
        scales: whether chunks are normalised, so that decoding needs their scales.
        context: see `EncoderInfo`.
        codebook_size: number of codes.
    """

    sample_rate_hz: int
    num_channels: int
    hop: int
    chunk: int
    stride: int
    is_causal: bool
    mirrors: bool
    scales: bool
    context: int
    codebook_size: int

    @classmethod
    def of(cls, config: Any) -> "CodecForm":  # noqa: ANN401 - transformers' classes are not typed
        """The form of a model with this configuration."""
        rate_hz = int(getattr(config, "sampling_rate", 0) or config.sample_rate)
        hop = int(getattr(config, "hop_length", 0) or round(rate_hz / config.frame_rate))
        chunk = int(getattr(config, "chunk_length", None) or hop)
        stride = int(getattr(config, "chunk_stride", None) or chunk)
        context = stride if chunk > hop else round(CONTEXT_SECONDS * rate_hz)
        if (attention := getattr(config, "sliding_window", None)) and hasattr(config, "encodec_frame_rate"):
            context = max(context, round(attention / config.encodec_frame_rate * rate_hz))
        return cls(
            sample_rate_hz=rate_hz,
            num_channels=int(getattr(config, "audio_channels", 1)),
            hop=hop,
            chunk=chunk,
            stride=stride,
            is_causal=bool(getattr(config, "use_causal_conv", False)),
            mirrors=getattr(config, "pad_mode", "") == "reflect",
            scales=bool(getattr(config, "normalize", False)),
            context=context,
            codebook_size=int(config.codebook_size),
        )

    @property
    def has_chunks(self) -> bool:
        """Whether the model cuts its input."""
        return self.chunk > self.hop

    @property
    def frames_of_chunk(self) -> int:
        """Frames that a chunk gives."""
        return -(-self.chunk // self.hop)

    @property
    def takes_padding(self) -> bool:
        """Whether rows of different lengths may share a forward pass."""
        return self.is_causal or self.has_chunks

    def num_chunks(self, num_frames: int) -> int:
        """Chunks of an input, the last one padded with zeros as the model's feature extractor does."""
        return max(1, -(-num_frames // self.stride))

    def padded(self, num_frames: int) -> int:
        """PCM frames of whole chunks, or of whole hops."""
        least = _MIRRORED_HOPS if self.mirrors and not self.has_chunks else 1
        return (max(least, self.num_chunks(num_frames)) - 1) * self.stride + self.chunk

    def info(self, settings: TransformersSettings) -> EncoderInfo:
        """Windows of long recordings, of whole chunks if the model has chunks."""
        long = _CONTEXTS_IN_A_WINDOW * self.context / self.sample_rate_hz
        wanted = WindowSeconds(settings.window_seconds or max(_WINDOW_SECONDS, long), settings.overlap_seconds)
        cut = wanted.frames if settings.window_seconds else wanted.default_frames
        window, overlap = cut(self.sample_rate_hz, self.stride, self.context)
        tolerance = running.batch_tolerance(settings.autocast)
        step = 0 if self.takes_padding else self.stride
        return EncoderInfo(
            self.context, window, overlap, is_concurrent=True, length_step=step, batch_tolerance=tolerance
        )
