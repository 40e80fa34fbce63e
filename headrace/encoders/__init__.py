"""Frozen encoders, each of which turns audio into latents, and the functions that load one by its kind.

A kind is the value of `encoder.kind` in the YAML: one of `KINDS`, or a class that an installed package registers in the
group `headrace.encoders`, with the interface of custom encoders. Importing this package imports neither torch nor any
model's package.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, cast

from headrace.encoders.protocol import Encoder, EncoderInfo, frame_rate_hz
from headrace.errors import ConfigError

__all__ = ["KINDS", "Encoder", "EncoderInfo", "fingerprint", "frame_rate_hz", "kind_names", "load"]

GROUP = "headrace.encoders"
"""The group of entry points in which packages register classes as kinds."""
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


@dataclass(frozen=True, slots=True)
class _Registered:
    """A kind of another package: a custom encoder with a name."""

    place: str

    def fingerprint(self, settings: Mapping[str, object]) -> str:
        return _module("custom").fingerprint({**settings, "encoder": self.place})

    def load(self, settings: Mapping[str, object], device: str) -> Encoder:
        return _module("custom").load({**settings, "encoder": self.place}, device)


def kind_names() -> list[str]:
    """Names of all kinds, sorted."""
    return sorted({*KINDS, *(point.name for point in entry_points(group=GROUP))})


def load(kind: str, settings: Mapping[str, object], device: str = "cpu") -> Encoder:
    """Load an encoder onto a device, frozen.

    Args:
        kind: one of `kind_names()`.
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
    if kind in KINDS:
        return cast("_Module", importlib.import_module(KINDS[kind]))
    if (point := next(iter(entry_points(group=GROUP, name=kind)), None)) is None:
        raise ConfigError(f"encoder kind {kind!r} is unknown; the kinds are {', '.join(kind_names())}")
    return _Registered(point.value)
