"""Frozen encoders, each of which turns audio into latents, and the functions that load one by its kind.

A kind is the value of `encoder.kind` in the YAML. Importing this package imports neither torch nor any model's package.
"""

import importlib
from collections.abc import Mapping
from typing import Protocol, cast

from headrace.encoders.protocol import Encoder, EncoderInfo, frame_rate_hz
from headrace.errors import ConfigError

__all__ = ["KINDS", "Encoder", "EncoderInfo", "fingerprint", "frame_rate_hz", "load"]

KINDS = {
    "crepe": "headrace.encoders.crepe",
    "custom": "headrace.encoders.custom",
    "fbank": "headrace.encoders.fbank",
    "kmeans": "headrace.encoders.kmeans",
    "log_mel": "headrace.encoders.log_mel",
    "onnx": "headrace.encoders.onnx",
    "text": "headrace.encoders.text",
    "transformers": "headrace.encoders.transformers",
}


class _Module(Protocol):
    """The functions that the module of every kind has."""

    def fingerprint(self, settings: Mapping[str, object]) -> str: ...

    def load(self, settings: Mapping[str, object], device: str) -> Encoder: ...


def load(kind: str, settings: Mapping[str, object], device: str = "cpu") -> Encoder:
    """Load an encoder onto a device, frozen.

    Args:
        kind: one of `KINDS`.
        settings: the other entries of `encoder` in the YAML.
        device: where it computes, for example `cpu` or `cuda:0`.

    Raises:
        ConfigError: the kind or a setting is unknown, or a setting is invalid.
        MissingDependencyError: the encoder's package or weights are not installed; the message says what to install.
        IntegrityError: the weights cannot be loaded safely, or are not finite numbers.
    """
    return _module(kind).load(settings, device)


def fingerprint(kind: str, settings: Mapping[str, object]) -> str:
    """The fingerprint of the encoder that `load` would return, without loading its model.

    Raises:
        ConfigError, MissingDependencyError: as for `load`.
    """
    return _module(kind).fingerprint(settings)


def _module(kind: str) -> _Module:
    if kind not in KINDS:
        raise ConfigError(f"encoder kind {kind!r} is unknown; the kinds are {', '.join(sorted(KINDS))}")
    return cast("_Module", importlib.import_module(KINDS[kind]))
