"""The encoder around a Hugging Face model: loading it safely, choosing among its layers, batching as it allows.

What differs between families of models is in `transformers_families`.
"""

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from headrace.encoders import running, weights
from headrace.encoders.framing import zero_padding
from headrace.encoders.protocol import EncoderInfo
from headrace.encoders.settings import Cut
from headrace.encoders.transformers import Settings
from headrace.encoders.transformers_families import Family, family_of
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError


def load_encoder(folder: Path, settings: Settings, fingerprint: str, device: str) -> "TransformersEncoder":
    """The encoder over the model in `folder`.

    Raises:
        IntegrityError: its weights would run code, are cut off, do not fit, or are not finite.
        ConfigError: its family is not one that is known, or it has no such layer.
    """
    from transformers import AutoConfig, AutoFeatureExtractor, AutoModel  # noqa: PLC0415 - optional, and slow to import

    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": settings.trust_remote_code}
    try:
        config = AutoConfig.from_pretrained(folder, **where)
        extractor = AutoFeatureExtractor.from_pretrained(folder, **where)  # type: ignore[no-untyped-call]
        model, report = AutoModel.from_pretrained(
            folder, config=config, output_loading_info=True, dtype=torch.float32, **where
        )
    except ImportError as error:
        raise MissingDependencyError(f"encoder transformers: {folder}: {error}") from error
    except (pickle.UnpicklingError, OSError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(
            f"{folder}: the model cannot be loaded safely ({reason}); save it as safetensors"
        ) from error
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise IntegrityError(
            f"{folder}: the weights of {missing} are missing and would be random; fetch the model again"
        )
    weights.check_finite(model.state_dict(), str(folder))
    return TransformersEncoder(family_of(model, extractor), settings, fingerprint, device)


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
        num_latent = torch.tensor([self.num_latent_frames(int(length)) for length in lengths])
        if batch.shape[2] > self.info.window:
            raise ConfigError(
                f"{batch.shape[2]} PCM frames at once, this model takes {self.info.window}: cut them into windows"
            )
        short = max(0, self._family.min_frames - batch.shape[2])
        padded, lengths = functional.pad(batch, (0, short)), lengths.clamp_min(self._family.min_frames)
        with running.precision(self.device, self._settings.autocast):
            if self._family.takes_padding:
                return self._trimmed(self._run(padded, lengths), num_latent), num_latent
            hidden = batch.new_zeros(len(batch), int(num_latent.max()), self.latent_dim)
            for length in sorted(set(lengths.tolist())):
                rows = (lengths == length).nonzero()[:, 0]
                part = self._run(padded[rows.to(batch.device), :, :length], lengths[rows])
                hidden[rows.to(batch.device), : part.shape[1]] = part[:, : hidden.shape[1]].float()
            return zero_padding(hidden, num_latent), num_latent

    def _run(self, batch: Tensor, lengths: Tensor) -> Tensor:
        return self._layers.combined(self._family.states(batch, lengths)).float()

    @staticmethod
    def _trimmed(hidden: Tensor, num_latent: Tensor) -> Tensor:
        return zero_padding(hidden[:, : int(num_latent.max())], num_latent)


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
    return EncoderInfo(family.context, min(window, family.max_frames or window), overlap, family.normalizes)
