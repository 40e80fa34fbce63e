"""Frozen encoders behind one protocol, one file each; found by their kind, loaded when asked for.

Importing this package imports neither torch nor any model's package.
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
    "log_mel": "headrace.encoders.log_mel",
    "transformers": "headrace.encoders.transformers",
}


class _Module(Protocol):
    """What the file of an encoder offers."""

    def fingerprint(self, settings: Mapping[str, object]) -> str: ...

    def load(self, settings: Mapping[str, object], device: str) -> Encoder: ...


def load(kind: str, settings: Mapping[str, object], device: str = "cpu") -> Encoder:
    """The encoder, its weights on `device` (`cpu`, `cuda:0`), frozen.

    Raises:
        ConfigError: unknown kind or setting.
        MissingDependencyError: its package or weights are not there; the message says what to install.
        IntegrityError: its weights cannot be loaded safely, or are not finite numbers.
    """
    return _module(kind).load(settings, device)


def fingerprint(kind: str, settings: Mapping[str, object]) -> str:
    """What `load(kind, settings).fingerprint` will be, without loading the model.

    Raises:
        ConfigError, MissingDependencyError: as for `load`.
    """
    return _module(kind).fingerprint(settings)


def _module(kind: str) -> _Module:
    if kind not in KINDS:
        raise ConfigError(f"encoder kind {kind!r} is not known; there are {', '.join(sorted(KINDS))}")
    return cast("_Module", importlib.import_module(KINDS[kind]))
