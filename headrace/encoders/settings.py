"""Parses an encoder's settings from its YAML entry, and computes its fingerprint from them.

Also the conversion of window lengths from seconds to PCM frames, which several encoders need. No model is loaded here.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from headrace.errors import ConfigError
from headrace.pydantic_words import shown, wrong

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

S = TypeVar("S")
_MOST = 2**31 - 1  # torch fails beyond 64 bits, with errors of its own


def parse(kind: str, settings: Mapping[str, object], form: type[S], *, what: str = "encoder") -> S:
    """Convert a mapping to the dataclass `form`; `what` has these settings, for messages.

    Raises:
        ConfigError: a key is unknown or missing, or a value is invalid; the message lists every error.
    """
    names = [field.name for field in dataclasses.fields(form)]  # type: ignore[arg-type]
    known = ", ".join(names) or "none"
    if unknown := [name for name in settings if name not in names]:  # pydantic ignores these in a plain dataclass
        raise ConfigError(f"{what} {kind}: unknown setting {unknown[0]!r}; the settings are: {known}")
    try:
        parsed = TypeAdapter(form).validate_python(dict(settings))
    except ValidationError as error:
        faults = "; ".join(map(_fault, error.errors()))
        raise ConfigError(f"{what} {kind}: {faults}; the settings are: {known}") from error
    for name in names:
        value = getattr(parsed, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{what} {kind}: {name}: expected a finite number, found {value}")
        if isinstance(value, int) and abs(value) > _MOST:
            raise ConfigError(f"{what} {kind}: {name}: expected a whole number of at most {_MOST}, found {value}")
    return parsed


def _fault(fault: "ErrorDetails") -> str:
    name = ".".join(str(part) for part in fault["loc"])
    if fault["type"] in {"missing", "missing_argument"}:
        return f"the setting {name!r} is required and missing"
    return f"{name}: {wrong(fault)}, found {shown(fault['input'])}"


def fingerprint(kind: str, code_version: int, settings: object, weights: str = "") -> str:
    """SHA-256 (hex) of everything that an encoder's results depend on.

    Settings whose dataclass field has `metadata={"results": False}` do not change results and are left out. Those with
    `{"results": "if set"}` are left out at their default, so that fingerprints from before the setting stay valid.

    Args:
        kind: kind of the encoder.
        code_version: version of this project's code for it.
        settings: the encoder's settings, a dataclass.
        weights: digest of the weights; empty if there are none.
    """
    fields = dataclasses.fields(settings)  # type: ignore[arg-type]
    content = {f.name: getattr(settings, f.name) for f in fields if _counts(f, getattr(settings, f.name))}
    return digest(kind, str(code_version), json.dumps(content, sort_keys=True), weights)


def _counts(field: "dataclasses.Field[object]", value: object) -> bool:
    results = field.metadata.get("results", True)
    return value != field.default if results == "if set" else bool(results)


def digest(*parts: str) -> str:
    """SHA-256 (hex) of a list of strings; the boundaries between the strings count."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class WindowSeconds:
    """Length of the windows into which long recordings are cut, and of the overlap of neighbouring windows."""

    window_seconds: float
    overlap_seconds: float

    def frames(self, sample_rate_hz: int, hop: int, context: int) -> tuple[int, int]:
        """Window and overlap in PCM frames. Both are multiples of `hop`; the overlap is more than twice the context.

        Raises:
            ConfigError: the window is shorter than two overlaps.
        """
        window, overlap = self._multiples(sample_rate_hz, hop, context)
        if window < 2 * overlap:
            least = 2 * overlap / sample_rate_hz
            raise ConfigError(
                f"window_seconds {self.window_seconds:g} is too short for the overlap; use at least {least:.3g}"
            )
        return window, overlap

    def default_frames(self, sample_rate_hz: int, hop: int, context: int) -> tuple[int, int]:
        """Window and overlap as in `frames`, for encoders without the setting: a window that is too short is longer."""
        window, overlap = self._multiples(sample_rate_hz, hop, context)
        return max(window, 2 * overlap), overlap

    def _multiples(self, sample_rate_hz: int, hop: int, context: int) -> tuple[int, int]:
        num_trimmed = -(-context // hop)
        overlap = max(-(-round(self.overlap_seconds * sample_rate_hz) // hop), 2 * num_trimmed + 1) * hop
        return -(-round(self.window_seconds * sample_rate_hz) // hop) * hop, overlap
