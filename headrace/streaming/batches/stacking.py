"""Stacks samples into a batch (`collate`, `stack`)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.indexes.audio_fields import AUDIO
from headrace.format.tensors.tensors import storage_dtype
from headrace.streaming.batches.arena import Allocator, Arena
from headrace.streaming.batches.batch import Audio, Batch, Latents, Sample
from headrace.streaming.batches.events import padded_grids
from headrace.streaming.batches.ragged_fields import LENGTH, padded, padded_itself
from headrace.streaming.batches.user_fields import ValueKind, as_numpy, padding_value, stacked
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, fields_in
from headrace.streaming.rasters import Raster
from headrace.streaming.samples.fields import AUDIO_NAMES, OF_LATENTS, OF_SAMPLES, audio_names, called, flaw, is_number
from headrace.streaming.settings import ArrayType

T = TypeVar("T")
NameOf: TypeAlias = Callable[[int], str]
"""The name of a batch's row in messages."""

_APART = 'give each kind a stream of its own, with batching_method="per_stream": then each batch is of one stream'


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Sizes and fields of a batch that do not follow from its samples.

    Attributes:
        least_frames: frames of audio that it has room for.
        rasters: fields that are grids of events.
    """

    least_frames: int = 0
    rasters: Mapping[str, Raster] = field(default_factory=dict)


def collate(samples: Sequence[Sample], pad: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Samples of a `StreamingDataset` → a batch of tensors, padded with zeros; also a `DataLoader`'s `collate_fn`.

    Args:
        samples: the samples.
        pad: fields (L, …) whose length differs, and what to pad each with; see the argument of `StreamingDataset`.

    Returns:
        `audio`, or each named audio field, float32 (B, C, N), `num_frames` int64 (B,), `sample_rate` int64 (B,);
        `encoder_hidden` (B, T, D) in its stored dtype, `encoder_length` int64 (B,); `keys` and `metadata` lists;
        `is_padding` bool (B,); for cropped samples `frame_offset` and `encoder_offset`, int64 (B,), where the crop
        begins. Other fields: tensors, arrays, numbers and bools of one shape are stacked, (B, …), with zeros in padding
        rows; the rest are lists. Fields that no sample has are left out.

    Raises:
        ConfigError: the samples' audio differs in channels, or their latents in width; or only some samples have audio
            or latents; or a field has a wrong type or shape.
    """
    for number, sample in enumerate(samples):
        if (found := flaw(sample)) is not None:
            raise ConfigError(f"{called(sample, number)} of a batch has {found}; check the transform")
    batch = stack(samples, Arena(0), pad=pad or {}).to_dict(ArrayType.TORCH)
    return {"is_padding": batch["is_padding"]} | batch  # Accelerate takes the length of the first field for the batch's


def stack(
    samples: Sequence[Sample],
    allocator: Allocator,
    name_of: NameOf | None = None,
    pad: Mapping[str, float] = MappingProxyType({}),
    layout: BatchLayout | None = None,
) -> Batch:
    """Samples that were checked → a batch. See `collate`."""
    layout = layout or BatchLayout()
    name_of = name_of or (lambda row: called(samples[row], row))
    keys = [str(sample.get("__key__", "")) for sample in samples]
    is_padding = np.array([bool(sample.get("is_padding", False)) for sample in samples])
    batch = Batch(keys, [sample.get("metadata", {}) for sample in samples], is_padding)
    # A batch of padding only has the shapes of its rows, so a training step never gets a batch without audio.
    shown = [sample for sample in samples if not sample.get("is_padding", False)] or list(samples)
    audio = list(dict.fromkeys(name for sample in shown for name in audio_names(sample) if name in sample))
    if audio:
        batch.audio = _stack_audio(samples, audio, allocator, name_of, layout.least_frames)
    names = dict.fromkeys(key for sample in shown for key in sample)
    outputs = {name: found for sample in shown for name, found in fields_in(sample).items()}
    of_outputs = {name for found in outputs.values() for name in found.names}
    _check_padded({name: fill for name, fill in pad.items() if name not in outputs}, names, samples, name_of)
    batch.has_metadata = "metadata" in names
    for name in names:
        if name in outputs:
            batch.latents[name] = _stack_latents(samples, outputs[name], allocator, name_of)
        elif (raster := layout.rasters.get(name)) is not None:
            real = {row: as_numpy(one[name])[0] for row, one in enumerate(samples) if not one.get("is_padding")}
            origin = ValueKind.ARRAY if isinstance(shown[0][name], np.ndarray) else ValueKind.TENSOR
            batch.stacked[name] = padded_grids(real, raster, len(samples), allocator, origin)
        elif name not in OF_SAMPLES | of_outputs and name not in audio and not name.startswith(OF_LATENTS):
            empty = padding_value(next(one[name] for one in shown if name in one))
            values = [one.get(name, empty if one.get("is_padding") else None) for one in samples]
            add_users(batch, name, values, allocator, pad.get(name))
    arrays = batch.arrays()
    left = (name for name in names if name not in arrays and (is_number(name) or name in of_outputs))
    batch.numbers = {name: _numbers(samples, name) for name in left}
    return batch


def padding_like(sample: Sample) -> Sample:
    """A row of padding with the fields and shapes of `sample`: zeros, key `''`, `is_padding` true."""
    row: Sample = {"__key__": "", "is_padding": True}
    audio, outputs = audio_names(sample), fields_in(sample)
    numbers = {name for found in outputs.values() for name in found.names[1:]}
    for name, value in sample.items():
        if name in {AUDIO_NAMES, OUTPUT_FIELDS}:
            row[name] = value
        elif name in audio or name in outputs:
            row[name] = np.zeros_like(value) if isinstance(value, np.ndarray) else value.new_zeros(value.shape)
        elif is_number(name) or name in numbers:
            row[name] = 0
        elif name == "metadata":
            row[name] = {}
        else:  # so that every rank's last batch has the same fields
            row.setdefault(name, padding_value(value))
    return row


def check_channels(counts: Mapping[int, int], name_of: NameOf, field_name: str = AUDIO) -> int:
    """The number of channels that all rows have; 1 for no rows.

    Args:
        counts: number of channels by row, without padding.
        name_of: the name of a row in messages.
        field_name: the audio field.

    Raises:
        ConfigError: rows differ in channels.
    """
    row_with = {count: row for row, count in counts.items()}
    if len(row_with) > 1:
        found = sorted(row_with)
        examples = ", ".join(f"{count} in {name_of(row_with[count])}" for count in found)
        raise ConfigError(
            f"a batch holds {field_name} of {' and '.join(map(str, found))} channels ({examples}): set "
            "audio.num_channels in the data set's YAML and build again, pass a transform that gives all samples the "
            f"same number, or {_APART}"
        )
    return next(iter(row_with), 1)


def check_width(widths: Mapping[int, tuple[int, str]], name_of: NameOf) -> tuple[int, str]:
    """The width D and dtype that all latents have; (0, float32) for no rows.

    Args:
        widths: width and dtype by row, without padding.
        name_of: the name of a row in messages.

    Raises:
        ConfigError: rows differ in width or dtype.
    """
    row_with = {width: row for row, width in widths.items()}
    if len(row_with) > 1:
        found = sorted(row_with)
        shown = " and ".join(f"(T, {width}) {dtype}" for width, dtype in found)
        examples = ", ".join(f"(T, {pair[0]}) {pair[1]} in {name_of(row_with[pair])}" for pair in found)
        raise ConfigError(
            f"a batch holds latents of the shapes {shown} ({examples}): build them with one encoder and "
            f"dtype, or {_APART}"
        )
    return next(iter(row_with), (0, "float32"))


def add_users(batch: Batch, name: str, values: list[Any], allocator: Allocator, fill: float | None = None) -> None:
    """Add a field of the user's, stacked if its values have one shape, or padded with `fill`."""
    if fill is not None:
        real = {row: value for row, value in enumerate(values) if not batch.is_padding[row]}
        batch.stacked[name] = padded(name, real, len(values), fill, allocator)
        return
    found = stacked(name, values, batch.is_padding, allocator)
    if found is None:
        batch.extra[name] = values
    else:
        batch.stacked[name] = found


def _check_padded(pad: Mapping[str, float], names: Collection[str], samples: Sequence[Sample], name_of: NameOf) -> None:
    """Raise `ConfigError` if a sample lacks a field that is to be padded, or has a field with the name of lengths."""
    for name in pad:
        if all(sample.get("is_padding", False) for sample in samples):
            return
        if name not in names:
            raise ConfigError(f"pad: no sample of a batch has a field {name!r}; they have {', '.join(sorted(names))}")
        if any(name in audio_names(sample) for sample in samples):
            raise ConfigError(padded_itself(name))
        if name + LENGTH in names:
            raise ConfigError(f"pad: the lengths of {name!r} would be {name + LENGTH!r}, a field that samples have")
        _check_all_have(samples, name, name_of)


def _check_all_have(samples: Sequence[Sample], name: str, name_of: NameOf) -> None:
    lacking = next((row for row, one in enumerate(samples) if not one.get("is_padding") and name not in one), None)
    if lacking is not None:
        raise ConfigError(
            f"{name_of(lacking)} has no {name}, others of its batch have: {_APART}, or pass a transform that gives all "
            'samples the same fields (on_bad_sample="skip" skips what cannot be read, and this can)'
        )


def _stack_audio(
    samples: Sequence[Sample], names: Sequence[str], allocator: Allocator, name_of: NameOf, least: int
) -> Audio:
    fields = {name: _stack_audio_field(samples, name, allocator, name_of, least) for name in names}
    lengths = [0 if one.get("is_padding") else int(one[names[0]].shape[1]) for one in samples]
    rates, offsets = _numbers(samples, "sample_rate"), _numbers_of_some(samples, "frame_offset")
    return Audio(fields, np.array(lengths, np.int64), rates, offsets)


def _stack_audio_field(
    samples: Sequence[Sample], name: str, allocator: Allocator, name_of: NameOf, least: int
) -> NDArray[np.float32]:
    _check_all_have(samples, name, name_of)
    arrays = [None if sample.get("is_padding") else as_numpy(sample[name])[0] for sample in samples]
    real = _real(arrays) or {0: as_numpy(samples[0][name])[0]}
    channels = check_channels({row: array.shape[0] for row, array in real.items()}, name_of, name)
    length = max(least, *(array.shape[1] for array in real.values()))
    out = allocator.empty((len(samples), channels, length), np.float32)
    for row, array in zip(out, arrays, strict=True):
        num_frames = 0 if array is None else array.shape[1]
        if array is not None:
            row[:, :num_frames] = array
        row[:, num_frames:] = 0
    return cast("NDArray[np.float32]", out)


def _stack_latents(samples: Sequence[Sample], field: OutputField, allocator: Allocator, name_of: NameOf) -> Latents:
    name = field.values
    _check_all_have(samples, name, name_of)
    pairs = [None if sample.get("is_padding") else _rows_of(sample[name]) for sample in samples]
    real = _real(pairs) or {0: _rows_of(samples[0][name])}
    width, dtype = check_width({row: (array.shape[1], kind) for row, (array, kind) in real.items()}, name_of)
    length = field.room_for(max(array.shape[0] for array, _ in real.values()))
    out = allocator.empty((len(samples), length, width), storage_dtype(dtype))
    lengths = [
        0 if pair is None else int(sample.get(field.length, len(pair[0])))
        for sample, pair in zip(samples, pairs, strict=True)
    ]
    for row, pair, count in zip(out, pairs, lengths, strict=True):
        if pair is not None:
            row[:count] = pair[0][:count]
        row[count:] = field.padding
    offsets = _numbers_of_some(samples, field.offset) if field.offset else None
    return Latents(out, np.array(lengths, np.int64), dtype, offsets, field)


def _rows_of(values: Any) -> tuple[NDArray[Any], str]:  # noqa: ANN401 - an array of any library
    """Values as (T, D), (1, D) of a vector, and the name of their dtype."""
    array, dtype = as_numpy(values)
    return (array[None] if array.ndim == 1 else array), dtype


def _real(values: Sequence[T | None]) -> dict[int, T]:
    """The values of rows that are not padding, by row."""
    return {row: value for row, value in enumerate(values) if value is not None}


def _numbers(samples: Sequence[Sample], name: str) -> NDArray[np.int64]:
    """A field of whole numbers, 0 where a sample lacks it."""
    return np.array([int(sample.get(name, 0)) for sample in samples], np.int64)


def _numbers_of_some(samples: Sequence[Sample], name: str) -> NDArray[np.int64] | None:
    """`_numbers`; None if no sample has the field."""
    return _numbers(samples, name) if any(name in sample for sample in samples) else None
