"""The encoder of `kind: transformers`: runs a Hugging Face model on batches and selects or sums its hidden states.

`transformers_loading` loads the model; `transformers_families` has what differs between families of models.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device, zero_padding
from headrace.encoders.protocol import Encoder, EncoderInfo
from headrace.encoders.settings import WindowSeconds
from headrace.encoders.transformers_codec import Codec
from headrace.encoders.transformers_families import ModelFamily, family_of
from headrace.encoders.transformers_loading import brings_code, load_model, not_runnable
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.encoders.transformers_vector import VectorEncoder, pooled_of
from headrace.errors import BuildError, ConfigError


def load_encoder(folder: Path, settings: TransformersSettings, fingerprint: str, device: str) -> Encoder:
    """Load the model in `folder` as an encoder.

    Raises:
        IntegrityError, MissingDependencyError: see `load_model`.
        ConfigError: the model's family is unknown, it has no such layer, or its own code does not run here.
    """
    model, extractor = load_model(folder, settings)
    match settings.output:
        case "codes" | "latents":
            return Codec(model, settings, fingerprint, device)
        case "vector":
            return VectorEncoder(pooled_of(model, extractor, device), settings, fingerprint, device)
    encoder = TransformersEncoder(family_of(model, extractor), settings, fingerprint, device)
    if brings_code(model):
        _try_out(encoder, folder)
    return encoder


def _try_out(encoder: "TransformersEncoder", folder: Path) -> None:
    """Encode a second of silence, to check that the model's own code works as its family does."""
    num_frames = min(encoder.sample_rate_hz, encoder.info.window)
    silence = torch.zeros(1, encoder.num_channels, num_frames, device=encoder.device)
    try:
        encoder.encode(silence, torch.tensor([num_frames]))
    except Exception as error:
        raise not_runnable(folder, error) from error


class TransformersEncoder:
    """An `Encoder` around a model of any family."""

    def __init__(self, family: ModelFamily, settings: TransformersSettings, fingerprint: str, device: str) -> None:
        self._family, self._settings = family, settings
        self.device, self.fingerprint = device, fingerprint
        self.sample_rate_hz, self.num_channels, self.hop = family.sample_rate_hz, family.num_channels, family.hop
        self.latent_dim = family.latent_dim
        self.info = _info(family, settings)
        self._layers = _LayerChoice(settings, family.num_states)
        family.keep_states(self._layers.last_needed, hidden=self._layers.needs_hidden)
        family.to(device, wants_compiled=settings.compile)

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return max(1, self._family.num_latent_frames(num_frames))

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`. If the family does not allow padding, rows of equal length are encoded together."""
        if batch.shape[2] > self.info.window:
            raise ConfigError(
                f"the input has {batch.shape[2]} PCM frames, this model takes at most {self.info.window}: cut it into "
                "windows"
            )
        num_latent = torch.tensor([self.num_latent_frames(int(length)) for length in lengths])
        short = max(0, self._family.min_frames - batch.shape[2])
        padded, lengths = functional.pad(batch, (0, short)), lengths.clamp_min(self._family.min_frames)
        run = self._run if self._family.takes_padding else self._run_by_length
        with running.precision(self.device, self._settings.autocast):
            return zero_padding(run(padded, lengths, num_latent), num_latent), num_latent

    def _run(self, batch: Tensor, lengths: Tensor, num_latent: Tensor) -> Tensor:
        """Latents (B, T of the longest row, D) of audio (B, C, N). Latents of padding are undefined."""
        hidden = self._layers.combined(self._family.states(batch, lengths)).float()
        longest = int(num_latent.max())
        if hidden.shape[1] < longest or hidden.shape[2] != self.latent_dim:
            raise BuildError(
                f"the model returned latents of shape {tuple(hidden.shape)} for {batch.shape[2]} PCM frames; by its "
                f"configuration, (B, {longest}, {self.latent_dim}) is expected: it may be of an unknown family"
            )
        return hidden[:, :longest]

    def _run_by_length(self, batch: Tensor, lengths: Tensor, num_latent: Tensor) -> Tensor:
        """Latents as of `_run`, computed without padding: rows of one length at a time."""
        hidden = batch.new_zeros(len(batch), int(num_latent.max()), self.latent_dim)
        for length in sorted(set(lengths.tolist())):
            chosen = (lengths == length).nonzero()[:, 0]
            rows = to_device(chosen, batch.device)
            part = self._run(batch[rows, :, :length], lengths[chosen], num_latent[chosen])
            hidden[rows, : part.shape[1]] = part
        return hidden


class _LayerChoice:
    """Selects the model's output, one of its hidden states, or a weighted sum of all of them."""

    def __init__(self, settings: TransformersSettings, num_states: int) -> None:
        self._layer, self._weights = settings.layer, settings.layer_weights
        if self._layer is not None and not -num_states <= self._layer < num_states:
            raise ConfigError(
                f"encoder transformers: layer {self._layer}: this model has hidden states 0 to {num_states - 1}"
            )
        if self._weights is not None and len(self._weights) != num_states:
            given = len(self._weights)
            raise ConfigError(f"encoder transformers: {given} layer_weights, this model has {num_states} hidden states")
        self.needs_hidden = self._layer is not None or self._weights is not None
        self.last_needed: int | None = None
        if self._layer is not None:
            self.last_needed = self._layer % num_states

    def combined(self, states: tuple[Tensor, ...]) -> Tensor:
        """The selected state or sum (B, T, D).

        Args:
            states: the hidden states if `needs_hidden`, then the output; each (B, T, D).
        """
        if self._layer is not None and self.last_needed is not None:
            return states[self.last_needed]
        if self._weights is None:
            return states[-1]
        total = states[0] * self._weights[0]
        for weight, state in zip(self._weights[1:], states[1:-1], strict=True):
            total = total + weight * state
        return total


def _info(family: ModelFamily, settings: TransformersSettings) -> EncoderInfo:
    longest = family.max_frames / family.sample_rate_hz if family.max_frames else 30.0
    window_seconds = settings.window_seconds or longest
    if family.max_frames and window_seconds > longest:
        raise ConfigError(
            f"encoder transformers: window_seconds is {window_seconds:g}, this model takes at most {longest:g} s"
        )
    cut = WindowSeconds(window_seconds, settings.overlap_seconds)
    window, overlap = cut.frames(family.sample_rate_hz, family.hop, family.context)
    return EncoderInfo(
        context=family.context,
        window=min(window, family.max_frames or window),
        overlap=overlap,
        normalizes=family.normalizes,
        is_concurrent=not (settings.compile or settings.trust_remote_code),  # other forward passes are thread-safe
        padded_to=family.max_frames,  # families with a longest input pad every input to it
        length_step=0 if family.takes_padding else 1,
        batch_tolerance=running.batch_tolerance(settings.autocast),
        is_compiled=settings.compile,
    )
