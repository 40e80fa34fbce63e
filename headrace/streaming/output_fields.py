"""Names of latents in samples and batches: the fields that each output of an encoder becomes.

The output `encoder_hidden` of one folder comes as `encoder_hidden`, `encoder_length` and, under crops,
`encoder_offset`; of several folders, with the folder's name behind each. A named output comes under its own name while
one folder has it, else with the folder's name behind it; what has time also comes with `_length` and `_offset`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.errors import ConfigError
from headrace.format.tensors.outputs import OUTPUTS, Output, hidden_output, outputs_of
from headrace.output_kinds import CHOICE, HIDDEN, LENGTH, OFFSET, OutputKind

OUTPUT_FIELDS = "__outputs__"
"""Field of a sample with the named outputs that it has: name → `OutputField`."""


@dataclass(frozen=True, slots=True)
class OutputField:
    """One output as a field of samples and batches.

    Attributes:
        values: name of the field with its values: (T, D) of a sample, (D,) of a vector.
        length: name of the field with its number of frames; empty for a vector.
        offset: name of the field with the first frame that a crop kept, or with the number of the vector that was
            drawn; empty for any other vector.
        number: its number among the outputs of its folder.
        kind: what it is.
        padding: what rows of a batch are filled with after their end.
        output: its name in the `.pth`.
        dtype: of codes; empty for floats, whose dtype each shard has.
    """

    values: str
    length: str
    offset: str
    number: int = 0
    kind: OutputKind = OutputKind.FRAMES
    padding: int = 0
    output: str = HIDDEN
    dtype: str = ""

    def room_for(self, longest: int) -> int:
        """T of a batch whose longest row has this many frames: a vector has room, though all may have been rejected."""
        return longest if self.has_time else max(1, longest)

    @property
    def has_time(self) -> bool:
        """Whether it has frames."""
        return bool(self.length)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all fields that it becomes."""
        return tuple(name for name in (self.values, self.length, self.offset) if name)

    @property
    def is_choice(self) -> bool:
        """Whether a sample may have several vectors, of which one is drawn."""
        return bool(self.offset) and not self.has_time

    @property
    def is_named(self) -> bool:
        """Whether an encoder gave it its name."""
        return not self.values.startswith(HIDDEN)


def hidden_field(suffix: str = "") -> OutputField:
    """The field of the output of an encoder that names none, with the suffix of its folder."""
    return OutputField(HIDDEN + suffix, "encoder_length" + suffix, "encoder_offset" + suffix)


def output_fields(folders: Sequence[tuple[str, Sequence[Output]]]) -> list[tuple[OutputField, ...]]:
    """The fields of each folder of latents, from its name and outputs."""
    every = [(folder, output.name) for folder, outputs in folders for output in outputs]
    names = [name for _, name in every]
    found = []
    for folder, outputs in folders:
        suffixes = [f"_{folder}" if names.count(output.name) > 1 else "" for output in outputs]
        pairs = enumerate(zip(outputs, suffixes, strict=True))
        found.append(tuple(_field(output, suffix, number) for number, (output, suffix) in pairs))
    return found


def with_padding(fields: Iterable[OutputField], pad: Mapping[str, float]) -> tuple[OutputField, ...]:
    """The fields, of which codes are padded with the user's numbers where there are any.

    Raises:
        ConfigError: something else than codes is to be padded, or the dtype of the codes cannot hold the number.
    """
    return tuple(_padded(field, pad) for field in fields)


def _padded(field: OutputField, pad: Mapping[str, float]) -> OutputField:
    if field.kind is OutputKind.CODES and field.values in pad:
        return replace(field, padding=_code(field, pad[field.values]))
    taken = next((name for name in field.names if name in pad), None)
    if taken is not None:
        raise ConfigError(f"pad: {taken!r} is a field of latents, of which only codes are padded: leave it out")
    return field


def _code(field: OutputField, number: float) -> int:
    limits = np.iinfo(field.dtype)
    if not limits.min <= number <= limits.max or number != int(number):
        raise ConfigError(
            f"pad[{field.values!r}] is {number!r}, and codes are {field.dtype}: pass a whole number from {limits.min} "
            f"to {limits.max}"
        )
    return int(number)


def _field(output: Output, suffix: str, number: int) -> OutputField:
    if not output.is_named:
        return hidden_field(suffix)
    name, dtype = output.name + suffix, output.dtype if output.kind is OutputKind.CODES else ""
    if not output.has_time:
        choice = name + CHOICE if output.is_choice else ""
        return OutputField(name, "", choice, number, output.kind, output=output.name)
    return OutputField(name, name + LENGTH, name + OFFSET, number, output.kind, output.padding, output.name, dtype)


def outputs_of_origin(origin: Mapping[str, Any], name: str) -> tuple[Output, ...]:
    """The outputs of a folder of latents, from the origin of its snapshot. Raises `FormatError` with its name."""
    listed = origin.get(OUTPUTS)
    return outputs_of(listed, name) if listed else (hidden_output(str(origin.get("dtype", "float32"))),)


def stated_outputs(metadata: Mapping[str, Any]) -> tuple[Output, ...]:
    """The named outputs that the JSON of a sample lists; empty if it lists none. Raises `FormatError`."""
    facts = metadata.get("headrace")
    listed = facts.get(OUTPUTS) if isinstance(facts, dict) else None
    return outputs_of(listed, "its JSON") if listed else ()


def stated_fields(metadata: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, OutputField]:
    """The named outputs that the JSON of a sample lists and the sample has, as in shards of Headrace."""
    (fields,) = output_fields([("", stated_outputs(metadata))])
    return {field.values: field for field in fields if field.is_named and field.values in sample}


def fields_in(sample: Mapping[str, Any]) -> dict[str, OutputField]:
    """The outputs that a sample has, by the names of their values: those that it lists, and `encoder_hidden…`."""
    listed: Mapping[str, OutputField] = sample.get(OUTPUT_FIELDS, {})
    hidden = {name: hidden_field(name.removeprefix(HIDDEN)) for name in sample if name.startswith(HIDDEN)}
    return {name: found for name, found in listed.items() if name in sample} | hidden
