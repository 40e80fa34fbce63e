"""Outputs that an encoder declares: its attribute `outputs`, parsed.

    outputs = {"codes": {"kind": "codes", "hop": 320, "num_codebooks": 8}, "embedding": {"kind": "vector", "dim": 512}}

An encoder without it has the one output `encoder_hidden` of width `latent_dim`, every `hop` PCM frames.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from headrace.batch_names import NAMES_OF_BATCHES
from headrace.encoders.protocol import Encoder
from headrace.errors import ConfigError
from headrace.output_kinds import CHOICE, HIDDEN, INTEGER_DTYPES, LENGTH, OFFSET, OutputKind

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_KEYS = {
    OutputKind.FRAMES: {"hop", "dim"},
    OutputKind.CODES: {"hop", "num_codebooks", "dtype"},
    OutputKind.VECTOR: {"dim"},
}
_DEFAULTS = {"num_codebooks": 1, "dtype": "int16"}


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """One output of an encoder.

    Attributes:
        name: its name.
        kind: frames (B, T, width), codes (B, T, width) or a vector (B, width).
        width: size of a frame, number of codebooks, or size of the vector.
        hop: PCM frames from one frame to the next, a fraction if they are not whole (EnCodec 48 kHz: 316.8); 0 for a
            vector, and for frames that follow no time of the audio, such as those of tokens.
        dtype: of codes; empty for floats, which are stored as the YAML says.
        is_choice: of a vector: whether a sample may have several, (K, width), of which a reader draws one.
    """

    name: str
    kind: OutputKind
    width: int
    hop: int | Fraction = 0
    dtype: str = ""
    is_choice: bool = False

    @property
    def has_time(self) -> bool:
        """Whether it has frames."""
        return self.kind is not OutputKind.VECTOR

    def fits(self, num_latent: int, num_frames: int, context: int) -> bool:
        """Whether audio of `num_frames` may have this many frames by the hop.

        One frame, and those within `context` PCM frames of the end, may be missing or too many.
        """
        return not self.hop or abs(num_latent - num_frames / self.hop) <= 1 + context / self.hop


def outputs_of(encoder: Encoder) -> tuple[EncoderOutput, ...]:
    """The outputs of an encoder, those with time first. Raises `ConfigError` as `parsed_outputs`."""
    declared = getattr(encoder, "outputs", None)
    if declared is None:
        return (EncoderOutput(HIDDEN, OutputKind.FRAMES, encoder.latent_dim, encoder.hop),)
    return declared if isinstance(declared, tuple) else parsed_outputs(declared, type(encoder).__name__)


def common_hop(outputs: tuple[EncoderOutput, ...]) -> int:
    """PCM frames after which frames of all outputs begin together; 1 without outputs in time."""
    return math.lcm(*(output.hop.numerator for output in outputs if output.hop))


def parsed_outputs(declared: object, encoder: str) -> tuple[EncoderOutput, ...]:
    """The outputs that an encoder declares, those with time first.

    Raises:
        ConfigError: they are not a dict of names and settings; names the encoder, the output and what is expected.
    """
    if not isinstance(declared, Mapping) or not declared:
        raise ConfigError(f"encoder {encoder}: outputs must be a dict of names and settings, found {declared!r}")
    found = [_parsed(str(name), settings, f"encoder {encoder}: output {name!r}") for name, settings in declared.items()]
    return tuple(sorted(found, key=lambda output: not output.has_time))


def _parsed(name: str, settings: Any, place: str) -> EncoderOutput:  # noqa: ANN401 - a user's
    if not _NAME.fullmatch(name) or name in NAMES_OF_BATCHES or name.endswith((LENGTH, OFFSET, CHOICE)):
        raise ConfigError(
            f"{place}: a name is a-z, 0-9 and _, of at most 40 characters, no field that every batch has, and does not "
            f"end in {LENGTH}, {OFFSET} or {CHOICE}"
        )
    if name.startswith("encoder_"):
        raise ConfigError(f"{place}: names that begin with encoder_ are those of encoders without outputs")
    kinds = ", ".join(kind.value for kind in OutputKind)
    kind = settings.get("kind") if isinstance(settings, Mapping) else None
    if kind not in [one.value for one in OutputKind]:  # a list, because a user's kind may have no hash
        raise ConfigError(f"{place}: its settings are a dict with kind: {kinds}; found {settings!r}")
    return _of_kind(name, OutputKind(kind), {key: value for key, value in settings.items() if key != "kind"}, place)


def _of_kind(name: str, kind: OutputKind, settings: Mapping[str, Any], place: str) -> EncoderOutput:
    known = _KEYS[kind]
    if unknown := sorted(set(map(str, settings)) - known):
        raise ConfigError(f"{place}: unknown setting {unknown[0]!r}; {kind.value} have {', '.join(sorted(known))}")
    values = {key: settings.get(key, _DEFAULTS.get(key)) for key in known}
    dtype = values.pop("dtype", "")
    if kind is OutputKind.CODES and dtype not in INTEGER_DTYPES:
        raise ConfigError(f"{place}: dtype {dtype!r} is not one of {', '.join(INTEGER_DTYPES)}")
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{place}: {key} must be a whole number of at least 1, found {value!r}")
    return EncoderOutput(name, kind, values.get("dim") or values["num_codebooks"], values.get("hop", 0), dtype)
