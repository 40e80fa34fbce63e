"""How each family of Hugging Face audio models is fed with audio and read as one vector per step.

One small class per family, each with the trap that its authors left: lengths that are not N / hop, inputs always 30 s
long, channels before time, patches instead of steps, statistics that padding would spoil. Owns what they have in common
and finding the right one.
"""

from typing import Any, Protocol

from torch import Tensor

from headrace.encoders.transformers_encodec import Encodec
from headrace.encoders.transformers_spectrogram import SpectrogramTransformer, Whisper
from headrace.encoders.transformers_waveform import Waveform
from headrace.errors import ConfigError


class Family(Protocol):
    """One model of a family.

    Attributes:
        sample_rate_hz, num_channels, hop, latent_dim: see `Encoder`.
        context: PCM frames that are trimmed at a cut edge.
        min_frames: shorter input is padded with zeros to this.
        max_frames: longest input; 0 for any.
        num_states: hidden states that the model gives, the embeddings among them.
        normalizes: see `EncoderInfo`.
        takes_padding: whether rows of different lengths may share a batch.
    """

    sample_rate_hz: int
    num_channels: int
    hop: int
    latent_dim: int
    context: int
    min_frames: int
    max_frames: int
    num_states: int
    normalizes: bool
    takes_padding: bool

    def num_latent_frames(self, num_frames: int) -> int:
        """T; below 1 for input shorter than the model can take, which is padded and counts as 1."""

    def keep_states(self, last: int | None) -> None:
        """Layers beyond hidden state `last` are not needed (None: all are)."""

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """Move to the device, frozen."""

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """All hidden states and then the output, each (B, T, D); rows may be longer than their T."""


def family_of(model: Any, extractor: Any) -> Family:  # noqa: ANN401 - transformers' classes are not typed
    """The family that a model belongs to.

    Raises:
        ConfigError: none that is known.
    """
    config = model.config
    if config.model_type == "whisper":
        return Whisper(model, extractor)
    if config.model_type == "encodec":
        return Encodec(model)
    if config.model_type == "audio-spectrogram-transformer":
        return SpectrogramTransformer(model, extractor)
    if hasattr(config, "conv_kernel") and hasattr(config, "conv_stride") and hasattr(model, "feature_extractor"):
        return Waveform(model, extractor)
    raise ConfigError(
        f"encoder transformers: models of type {config.model_type!r} are not known here (wav2vec2, HuBERT, WavLM and "
        "their like, Whisper, EnCodec, AST are); write a few lines of your own and use kind: custom, "
        'encoder: "module:Class"'
    )
