"""Families of Hugging Face audio models: their common interface, and the choice of the family for a model.

Each family is a class that prepares the model's input and converts its output to one vector per time step. Families
differ in what needs care: lengths that are not N / hop, inputs that are always 30 s long, channels before time, patches
instead of time steps, statistics that padding would change.
"""

from typing import Any, Protocol

from torch import Tensor

from headrace.encoders.transformers_encodec import Encodec
from headrace.encoders.transformers_spectrogram import SpectrogramTransformer, Whisper
from headrace.encoders.transformers_waveform import Waveform
from headrace.errors import ConfigError


class ModelFamily(Protocol):
    """A model, with the interface that all families share.

    Attributes:
        sample_rate_hz, num_channels, hop, latent_dim: see `Encoder`.
        context: see `EncoderInfo`.
        min_frames: shortest input in PCM frames; shorter input is padded with zeros.
        max_frames: longest input in PCM frames; 0 for no limit.
        num_states: number of hidden states, embeddings included.
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
        """T for an input of `num_frames` PCM frames; below 1 if the input is shorter than `min_frames`."""

    def keep_states(self, last: int | None, *, hidden: bool) -> None:
        """Remove the layers after hidden state `last`.

        Args:
            last: the last hidden state that is needed; None to keep all layers.
            hidden: whether hidden states are needed. If not, `states` returns the output only, and the memory of a
                layer's state is freed after the next layer.
        """

    def to(self, device: str, *, wants_compiled: bool) -> None:
        """Freeze the model, move it to a device, and compile it if wanted."""

    def states(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """Hidden states if `keep_states` asked for them, then the output: each (B, T, D). T may include padding."""


def family_of(model: Any, extractor: Any) -> ModelFamily:  # noqa: ANN401 - transformers' classes are not typed
    """Wrap a model in the class of its family.

    Raises:
        ConfigError: the model's family is unknown.
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
        f"encoder transformers: models of type {config.model_type!r} are not supported; supported are wav2vec2, "
        "HuBERT, WavLM and similar models, Whisper, EnCodec and AST. Write your own encoder and use kind: custom, "
        'encoder: "module:Class"'
    )
