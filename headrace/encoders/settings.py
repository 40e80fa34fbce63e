"""The settings of an encoder as its YAML entry gives them, checked once.

Owns turning a mapping into an encoder's own frozen dataclass, the settings that all encoders share, and the digest of
both. It loads no model.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from headrace.errors import ConfigError

S = TypeVar("S")


def parse(kind: str, settings: Mapping[str, object], form: type[S]) -> S:
    """The mapping as the dataclass `form`.

    Raises:
        ConfigError: a key is unknown or missing, or a value is wrong; the message lists every fault.
    """
    names = [field.name for field in dataclasses.fields(form)]  # type: ignore[arg-type]
    known = ", ".join(names) or "none"
    if unknown := [name for name in settings if name not in names]:  # pydantic ignores these in a plain dataclass
        raise ConfigError(f"encoder {kind}: unknown setting {unknown[0]!r}; settings of this kind: {known}")
    try:
        parsed = TypeAdapter(form).validate_python(dict(settings))
    except ValidationError as error:
        faults = "; ".join(
            _fault(fault["loc"], fault["type"], fault["msg"], fault["input"]) for fault in error.errors()
        )
        raise ConfigError(f"encoder {kind}: {faults}; settings of this kind: {known}") from error
    for name in names:
        value = getattr(parsed, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"encoder {kind}: {name}: must be a finite number, found {value}")
    return parsed


def _fault(location: tuple[int | str, ...], kind: str, message: str, found: object) -> str:
    name = ".".join(str(part) for part in location)
    if kind in {"missing", "missing_argument"}:
        return f"the setting {name!r} is missing, it has no default"
    return f"{name}: {message[0].lower() + message[1:]}, found {found!r}"


def fingerprint(kind: str, code_version: int, settings: object, weights: str = "") -> str:
    """SHA-256 (hex) of an encoder: kind, version of its code here, every setting that changes results, weights.

    Settings whose dataclass field says `metadata={"results": False}` (how fast, not what) are left out.
    """
    fields = dataclasses.fields(settings)  # type: ignore[arg-type]
    content = {f.name: getattr(settings, f.name) for f in fields if f.metadata.get("results", True)}
    return digest(kind, str(code_version), json.dumps(content, sort_keys=True), weights)


def digest(*parts: str) -> str:
    """SHA-256 (hex) of strings; which characters belong to which of them counts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Cut:
    """How long recordings are cut, in seconds: the longest input at a time, and what neighbours share."""

    window_seconds: float
    overlap_seconds: float

    def frames(self, sample_rate_hz: int, hop: int, context: int) -> tuple[int, int]:
        """Window and overlap in PCM frames, multiples of `hop` with room for the context on both sides of a seam.

        Raises:
            ConfigError: the window is too short for its overlap.
        """
        num_trimmed = -(-context // hop)
        overlap = max(-(-round(self.overlap_seconds * sample_rate_hz) // hop), 2 * num_trimmed + 1) * hop
        window = -(-round(self.window_seconds * sample_rate_hz) // hop) * hop
        if window < 2 * overlap:
            least = 2 * overlap / sample_rate_hz
            raise ConfigError(
                f"window_seconds {self.window_seconds:g} leaves no room for the overlap; use at least {least:.3g}"
            )
        return window, overlap
