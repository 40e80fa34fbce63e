"""The encoder around a Hugging Face model: choosing among its layers, batching as its family allows.

How a model gets here is `transformers_loading`'s business; what differs between families is in `transformers_families`.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from headrace.encoders import running
from headrace.encoders.framing import to_device, zero_padding
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import Cut
from headrace.encoders.transformers import Settings
from headrace.encoders.transformers_families import Family, family_of
from headrace.encoders.transformers_loading import brings_code, load_model, not_runnable
from headrace.errors import BuildError, ConfigError


def load_encoder(folder: Path, settings: Settings, fingerprint: str, device: str) -> "TransformersEncoder":
    """The encoder over the model in `folder`.

    Raises:
        IntegrityError, MissingDependencyError: as `load_model` does.
        ConfigError: its family is not one that is known, it has no such layer, or its own code does not run here.
    """
    model, extractor = load_model(folder, settings)
    encoder = TransformersEncoder(family_of(model, extractor), settings, fingerprint, device)
    if brings_code(model):
        _try_out(encoder, folder)
    return encoder


def _try_out(encoder: "TransformersEncoder", folder: Path) -> None:
    """Encode a second of silence: whether code that nobody here has seen does what its family promises."""
    num_frames = min(encoder.sample_rate_hz, encoder.info.window)
    silence = torch.zeros(1, encoder.num_channels, num_frames, device=encoder.device)
    try:
        encoder.encode(silence, torch.tensor([num_frames]))
    except Exception as error:
        raise not_runnable(folder, error) from error


class TransformersEncoder:
    """Implements `Encoder` over a family of models."""

    def __init__(self, family: Family, settings: Settings, fingerprint: str, device: str) -> None:
        self._family, self._settings = family, settings
        self.device, self.fingerprint = device, fingerprint
        self.sample_rate_hz, self.num_channels, self.hop = family.sample_rate_hz, family.num_channels, family.hop
        self.latent_dim = family.latent_dim
        self.info = _info(family, settings)
        self._layers = _LayerChoice(settings, family.num_states)
        family.keep_states(self._layers.last_needed)
        family.to(device, wants_compiled=settings.compile)

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`."""
        return max(1, self._family.num_latent_frames(num_frames))

    @torch.inference_mode()
    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See `Encoder`. Rows of families that cannot be padded are encoded by length."""
        if batch.shape[2] > self.info.window:
            raise ConfigError(
                f"{batch.shape[2]} PCM frames at once, this model takes {self.info.window}: cut them into windows"
            )
        num_latent = torch.tensor([self.num_latent_frames(int(length)) for length in lengths])
        short = max(0, self._family.min_frames - batch.shape[2])
        padded, lengths = functional.pad(batch, (0, short)), lengths.clamp_min(self._family.min_frames)
        run = self._run if self._family.takes_padding else self._run_by_length
        with running.precision(self.device, self._settings.autocast):
            return zero_padding(run(padded, lengths, num_latent), num_latent), num_latent

    def _run(self, batch: Tensor, lengths: Tensor, num_latent: Tensor) -> Tensor:
        """(B, C, N) to (B, T of the longest row, D), behind each row's T whatever the model gives for padding."""
        hidden = self._layers.combined(self._family.states(batch, lengths)).float()
        longest = int(num_latent.max())
        if hidden.shape[1] < longest or hidden.shape[2] != self.latent_dim:
            raise BuildError(
                f"the model gives latents of shape {tuple(hidden.shape)} for {batch.shape[2]} PCM frames, its "
                f"configuration promises (B, {longest}, {self.latent_dim}); it is not of the family that it seems to be"
            )
        return hidden[:, :longest]

    def _run_by_length(self, batch: Tensor, lengths: Tensor, num_latent: Tensor) -> Tensor:
        """The same, rows of one length at a time and without padding."""
        hidden = batch.new_zeros(len(batch), int(num_latent.max()), self.latent_dim)
        for length in sorted(set(lengths.tolist())):
            chosen = (lengths == length).nonzero()[:, 0]
            rows = to_device(chosen, batch.device)
            part = self._run(batch[rows, :, :length], lengths[chosen], num_latent[chosen])
            hidden[rows, : part.shape[1]] = part
        return hidden


class _LayerChoice:
    """One of the hidden states, or a weighted sum of all."""

    def __init__(self, settings: Settings, num_states: int) -> None:
        self._layer, self._weights = settings.layer, settings.layer_weights
        if self._layer is not None and not -num_states <= self._layer < num_states:
            raise ConfigError(
                f"encoder transformers: layer {self._layer}: this model has hidden states 0 to {num_states - 1}"
            )
        if self._weights is not None and len(self._weights) != num_states:
            given = len(self._weights)
            raise ConfigError(f"encoder transformers: {given} layer_weights, this model has {num_states} hidden states")
        self.last_needed: int | None = None
        if self._layer is not None:
            self.last_needed = self._layer % num_states

    def combined(self, states: tuple[Tensor, ...]) -> Tensor:
        """What is asked for of (all hidden states, then the output), each (B, T, D)."""
        if self._layer is not None and self.last_needed is not None:
            return states[self.last_needed]
        if self._weights is None:
            return states[-1]
        total = states[0] * self._weights[0]
        for weight, state in zip(self._weights[1:], states[1:-1], strict=True):
            total = total + weight * state
        return total


def _info(family: Family, settings: Settings) -> EncoderInfo:
    longest = family.max_frames / family.sample_rate_hz if family.max_frames else 30.0
    window_seconds = settings.window_seconds or longest
    if family.max_frames and window_seconds > longest:
        raise ConfigError(
            f"encoder transformers: window_seconds {window_seconds:g}: this model takes {longest:g} s at most"
        )
    cut = Cut(window_seconds, settings.overlap_seconds)
    window, overlap = cut.frames(family.sample_rate_hz, family.hop, family.context)
    return EncoderInfo(
        context=family.context,
        window=min(window, family.max_frames or window),
        overlap=overlap,
        normalizes=family.normalizes,
        is_concurrent=not (settings.compile or settings.trust_remote_code),  # transformers' own forward passes are
    )
