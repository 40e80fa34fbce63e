"""Defines the fields of a sample: which names a batch uses itself, and which values they may have.

`flaw` checks a sample that a transform returned. `batch` stacks the fields, and `decode` reads them.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.batch_names import NAMES_OF_BATCHES
from headrace.format.indexes.audio_fields import AUDIO
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, fields_in

AUDIO_NAMES = "__audio__"
"""Field of a sample with the names of its audio fields, where these are not the one field `audio`."""
START_SECONDS = "start_seconds"
"""Field of a sample with the time at which its crop or window begins, in seconds."""
OF_SAMPLES = frozenset(
    {"__key__", AUDIO_NAMES, OUTPUT_FIELDS, "audio", "sample_rate", "frame_offset", "metadata", "is_padding"}
)
"""Fields of a sample with a meaning of their own in a batch, besides those of latents."""
OF_LATENTS = ("encoder_hidden", "encoder_length", "encoder_offset")
"""Beginnings of the names of latents' fields; the suffix is the latents' name."""
VALID_FRAMES = "valid_frames"
"""Field of a batch that says which frames of its audio are not padding."""
_NUMBERS = frozenset({"sample_rate", "frame_offset"})
_OF_BATCHES_ALONE = {"keys", "num_frames", VALID_FRAMES}
_OF_BATCHES = OF_SAMPLES | NAMES_OF_BATCHES
_REAL_KINDS = "biuf"
_GREATEST = (1 << 63) - 1


def is_taken(name: str) -> bool:
    """Whether a batch uses this field name itself, so that no file of a sample may have it."""
    return name in _OF_BATCHES or name.startswith(OF_LATENTS)


def is_number(name: str) -> bool:
    """Whether a field is a whole number that describes audio or latents."""
    return name in _NUMBERS or (name.startswith(OF_LATENTS) and not name.startswith("encoder_hidden"))


def audio_names(sample: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the fields that are audio if the sample has them: those that it lists, and `audio`.

    >>> audio_names({"__audio__": ("mix", "vocals")})
    ('mix', 'vocals', 'audio')
    """
    listed = sample.get(AUDIO_NAMES, ())
    return (*listed, AUDIO) if AUDIO not in listed else tuple(listed)


def flaw(sample: object) -> str | None:
    """Why no batch can be made of a sample: the value that was found, and what was expected; None if it is valid.

    >>> flaw({"__key__": "a", "audio": [0.5]})
    'a list as audio: expected an array or tensor (channels, frames)'
    """
    if not isinstance(sample, Mapping):
        return f"a value of type {type(sample).__name__}: expected a sample, a dict of fields"
    if (unnamed := next((name for name in sample if not isinstance(name, str)), None)) is not None:
        return f"a field named {unnamed!r}: expected a string"
    outputs = fields_in(sample)
    listed = sample.get(AUDIO_NAMES, ())
    if not isinstance(listed, tuple | list) or not all(isinstance(name, str) for name in listed):
        return f"{_shown(listed)} as {AUDIO_NAMES}: expected a tuple with the names of the audio fields"
    audio = audio_names(sample)
    for name, value in sample.items():
        found = None
        if name in _OF_BATCHES_ALONE:
            found = f"a field {name!r}, which a batch has of its own: call it something else"
        elif name in audio:
            found = _array_flaw(name, value, "(channels, frames)")
        elif name in outputs:
            found = _output_flaw(sample, outputs[name])
        elif is_number(name):
            found = None if _whole(value) is not None else f"{_shown(value)} as {name}: expected a whole number"
        if found is not None:
            return found
    return _differing_lengths({name: sample[name] for name in audio if name in sample}) if listed else None


def _differing_lengths(audio: Mapping[str, Any]) -> str | None:
    lengths = {name: int(value.shape[1]) for name, value in audio.items()}
    if len(set(lengths.values())) < 2:
        return None
    shown = ", ".join(f"{name}: {count}" for name, count in lengths.items())
    return f"audio fields of different lengths ({shown}): expected one length, num_frames, for all"


def called(sample: object, number: int) -> str:
    """The name in messages of a sample with this number in a batch."""
    return f"sample {sample.get('__key__')!r}" if isinstance(sample, Mapping) else f"sample number {number}"


def _array_flaw(name: str, value: Any, shape: str) -> str | None:  # noqa: ANN401 - its type is checked here
    torch = sys.modules.get("torch")  # if torch was never imported, there are no tensors
    if isinstance(value, np.ndarray):
        is_real = value.dtype.kind in _REAL_KINDS
    elif torch is not None and isinstance(value, torch.Tensor):
        is_real = not value.is_complex()
    else:
        return f"{_shown(value)} as {name}: expected an array or tensor {shape}"
    if is_real and value.ndim == shape.count(",") + (shape != "(D,)"):
        return None
    return f"{name} of shape {tuple(value.shape)} and dtype {value.dtype}: expected real numbers {shape}"


def _output_flaw(sample: Mapping[str, Any], field: OutputField) -> str | None:
    name, values = field.values, sample[field.values]
    if not field.has_time:
        return _array_flaw(name, values, "(D,)")
    return _array_flaw(name, values, "(T, D)") or _length_flaw(sample, field)


def _length_flaw(sample: Mapping[str, Any], field: OutputField) -> str | None:
    values = sample[field.values]
    length = _whole(sample.get(field.length, 0))
    if length is None or 0 <= length <= len(values):
        return None
    return f"{field.length} {length}: expected 0 to {len(values)}, as {field.values} has shape {tuple(values.shape)}"


def _whole(value: Any) -> int | None:  # noqa: ANN401 - its type is checked here
    """A value as a whole number; None if it cannot be one."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor with several values
        return None
    return number if abs(number) <= _GREATEST else None


def _shown(value: object) -> str:
    """A short text for a value in a message."""
    return repr(value) if value is None or isinstance(value, str | int | float) else f"a {type(value).__name__}"
