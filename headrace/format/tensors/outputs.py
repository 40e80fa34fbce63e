"""Outputs of encoders: what the tensors of a latent sample are called, which kind each is, and how its rows follow.

Encoders of one float matrix have the one output `encoder_hidden`. Others name theirs: codes of an audio codec, an
embedding. All outputs of a sample are in one `.pth`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import FormatError
from headrace.format.tensors.tensors import TENSOR_DTYPES
from headrace.output_kinds import HIDDEN, INTEGER_DTYPES, LENGTH, OutputKind

OUTPUTS = "outputs"
"""The entry of the JSON of a sample, under `headrace`, and of the origin of a snapshot, with the named outputs."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an encoder.

    Attributes:
        name: its key in the `.pth`.
        kind: what it is.
        dtype: name of the dtype of its values, of `TENSOR_DTYPES` or, for codes, of `INTEGER_DTYPES`.
        hop: PCM frames from one of its frames to the next; 0 for vectors, and for frames that follow no time of the
            audio, such as those of tokens.
        sample_rate_hz: rate of these PCM frames; 0 without a hop.
        is_choice: of vectors: whether a sample may have several, (K, D), of which a reader draws one.
    """

    name: str
    kind: OutputKind
    dtype: str
    hop: int = 0
    sample_rate_hz: int = 0
    is_choice: bool = False

    @property
    def has_time(self) -> bool:
        """Whether it has frames."""
        return self.kind is not OutputKind.VECTOR

    @property
    def is_timed(self) -> bool:
        """Whether its frames follow the time of the audio, so that a crop cuts them."""
        return self.has_time and (self.hop > 0 or not self.is_named)

    @property
    def is_named(self) -> bool:
        """Whether the encoder gave it its name."""
        return self.name != HIDDEN

    @property
    def frame_rate_hz(self) -> float:
        """Frames per second; 0 if unknown, and for vectors."""
        return self.sample_rate_hz / self.hop if self.hop else 0.0

    @property
    def length_name(self) -> str:
        """Key of its number of frames in the `.pth`."""
        return self.name + LENGTH if self.is_named else "encoder_length"

    @property
    def padding(self) -> int:
        """Number that rows of a batch are filled with after their end: for codes a number that is no code."""
        if self.kind is not OutputKind.CODES:
            return 0
        return -1 if np.dtype(self.dtype).kind == "i" else int(np.iinfo(self.dtype).max)

    def described(self) -> dict[str, object]:
        """The output as JSON."""
        found: dict[str, object] = {"name": self.name, "kind": self.kind.value, "dtype": self.dtype}
        found |= {"is_choice": True} if self.is_choice else {}
        return found | ({"hop": self.hop, "sample_rate_hz": self.sample_rate_hz} if self.hop else {})


def hidden_output(dtype: str) -> Output:
    """The output of an encoder that names none; its frame rate is a note of the index."""
    return Output(HIDDEN, OutputKind.FRAMES, dtype)


def outputs_as_json(outputs: Sequence[Output]) -> str:
    """Outputs as the metadata of an index hold them."""
    return json.dumps([output.described() for output in outputs])


def outputs_of(listed: object, name: str) -> tuple[Output, ...]:
    """The outputs that a list describes (`Output.described`). Raises `FormatError` with the name of the file."""
    try:
        found = tuple(_output_of(entry) for entry in listed) if isinstance(listed, list) else None
    except (KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{name}: outputs are described in an unknown form ({error!r}); build it again") from error
    if found is None or len({output.name for output in found}) < len(found):
        raise FormatError(f"{name}: outputs are no list of different names; build it again")
    return found


def _output_of(entry: Mapping[str, Any]) -> Output:
    output = Output(
        str(entry["name"]),
        OutputKind(entry["kind"]),
        str(entry["dtype"]),
        int(entry.get("hop", 0)),
        int(entry.get("sample_rate_hz", 0)),
        bool(entry.get("is_choice", False)),
    )
    known = INTEGER_DTYPES if output.kind is OutputKind.CODES else TENSOR_DTYPES
    if output.dtype not in known or min(output.hop, output.sample_rate_hz) < 0:
        raise ValueError(f"{output.kind.value} of {output.dtype}, hop {output.hop}")
    return output
