"""Features: values that are computed from the audio of a sample, for columns.

A kind is the value of `features[].kind` in the YAML. Importing this package imports no model's package.
"""

import importlib
from collections.abc import Mapping
from typing import Protocol, cast

from headrace.encoders.settings import digest
from headrace.errors import ConfigError
from headrace.features.protocol import Feature

__all__ = ["KINDS", "Feature", "check", "fingerprint", "load"]

KINDS = {
    "custom": "headrace.features.custom",
    "levels": "headrace.features.levels",
    "quality": "headrace.features.quality",
    "speech": "headrace.features.speech",
}


class _Module(Protocol):
    """The functions that the module of every kind has."""

    def check(self, settings: Mapping[str, object]) -> None: ...

    def fingerprint(self, settings: Mapping[str, object]) -> str: ...

    def load(self, settings: Mapping[str, object]) -> Feature: ...


def check(kind: str, settings: Mapping[str, object]) -> None:
    """Check the settings of a feature. Nothing is loaded, and no file is read.

    Args:
        kind: one of `KINDS`.
        settings: the other entries of the feature in the YAML, except `name` and `field`.

    Raises:
        ConfigError: the kind or a setting is unknown, or a setting is invalid.
    """
    _module(kind).check(settings)


def fingerprint(kind: str, settings: Mapping[str, object]) -> str:
    """SHA-256 (hex) of everything that a feature's values depend on, except the audio.

    Raises:
        ConfigError: as for `check`; or the file of a model does not exist, or the user's code is invalid.
        MissingDependencyError: the package that has the model is not installed; the message says what to install.
    """
    return digest("feature", kind, _module(kind).fingerprint(settings))


def load(kind: str, settings: Mapping[str, object]) -> Feature:
    """Load a feature.

    Raises:
        ConfigError, MissingDependencyError: as for `fingerprint`.
        IntegrityError: onnxruntime cannot load the model.
    """
    return _module(kind).load(settings)


def _module(kind: str) -> _Module:
    if kind not in KINDS:
        raise ConfigError(f"feature kind {kind!r} is unknown; the kinds are {', '.join(sorted(KINDS))}")
    return cast("_Module", importlib.import_module(KINDS[kind]))
