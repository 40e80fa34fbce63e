"""`kind: custom`: a user's own encoder, named `module:Class`.

Owns finding the class and filling in what it leaves to us. The class is called with `device=` and the settings of the
YAML entry, and has what `Encoder` has; `info`, `num_latent_frames` and `device` may be left out where the defaults fit.
Its fingerprint must change whenever its results do: it is a property of the instance, over weights, code and settings.
Only an `info` that says `is_concurrent` has it called from several threads at once.
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.encoders import settings as forms
from headrace.encoders.protocol import Encoder, EncoderInfo
from headrace.encoders.settings import Cut
from headrace.errors import ConfigError

if TYPE_CHECKING:
    import torch

_NEEDED = ("sample_rate_hz", "num_channels", "hop", "latent_dim", "fingerprint", "encode")
_WINDOW_SECONDS, _OVERLAP_SECONDS, _CONTEXT_SECONDS = 30.0, 2.0, 0.5


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`. A classmethod `fingerprint_of(settings)` of the class spares loading it."""
    found, own = _class_of(settings)
    if hasattr(found, "fingerprint_of"):
        return _named(settings, str(found.fingerprint_of(own)))
    return load(settings, "cpu").fingerprint


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    found, own = _class_of(settings)
    try:
        inspect.signature(found).bind(device=device, **own)
    except TypeError as error:
        raise ConfigError(
            f"encoder custom: {settings['encoder']}: {error}; its settings are {sorted(own) or 'none'}"
        ) from error
    encoder = found(device=device, **own)
    missing = [name for name in _NEEDED if not hasattr(encoder, name)]
    if missing:
        raise ConfigError(
            f"encoder custom: {settings['encoder']} has no {', '.join(missing)}; see headrace.encoders.Encoder"
        )
    return Custom(encoder, _named(settings, str(encoder.fingerprint)), device)


def _named(settings: Mapping[str, object], own: str) -> str:
    return forms.digest("custom", str(settings["encoder"]), own)


def _class_of(settings: Mapping[str, object]) -> tuple[Any, dict[str, Any]]:
    """The class and its own settings."""
    name = settings.get("encoder")
    module, _, attribute = str(name or "").partition(":")
    if not module or not attribute:
        raise ConfigError(f'encoder custom: encoder must be "module:Class", found {name!r}')
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"encoder custom: {name}: {error}; is its folder on PYTHONPATH?") from error
    return found, {key: value for key, value in settings.items() if key != "encoder"}


class Custom:
    """Implements `Encoder` around the user's object."""

    def __init__(self, encoder: Any, fingerprint: str, device: str) -> None:  # noqa: ANN401
        self._encoder = encoder
        self.fingerprint = fingerprint
        self.device = str(getattr(encoder, "device", device))
        self.sample_rate_hz, self.num_channels = int(encoder.sample_rate_hz), int(encoder.num_channels)
        self.hop, self.latent_dim = int(encoder.hop), int(encoder.latent_dim)
        self.info: EncoderInfo = getattr(encoder, "info", None) or self._default_info()

    def _default_info(self) -> EncoderInfo:
        context = max(self.hop, round(_CONTEXT_SECONDS * self.sample_rate_hz))
        return EncoderInfo(
            context, *Cut(_WINDOW_SECONDS, _OVERLAP_SECONDS).frames(self.sample_rate_hz, self.hop, context)
        )

    def num_latent_frames(self, num_frames: int) -> int:
        """See `Encoder`; N / hop rounded up when the user's object does not say."""
        own = getattr(self._encoder, "num_latent_frames", None)
        return int(own(num_frames)) if own else max(1, -(-num_frames // self.hop))

    def encode(self, batch: "torch.Tensor", lengths: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
        """See `Encoder`."""
        hidden, num_latent = self._encoder.encode(batch, lengths)
        return hidden, num_latent.cpu()
