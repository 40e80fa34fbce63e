"""Defines a batch, its fields, shapes and padding, and stacks samples into one (`collate`, `stack`).

docs/batches.md lists the fields for users. Nothing is read or decoded here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.indexes.audio_fields import AUDIO
from headrace.format.tensors.tensors import BFLOAT16, storage_dtype, widen_bfloat16
from headrace.streaming.batches.arena import Allocator, Arena
from headrace.streaming.batches.events import padded_grids
from headrace.streaming.batches.ragged_fields import LENGTH, padded, padded_with_zeros
from headrace.streaming.batches.user_fields import StackedField, ValueKind, as_numpy, padding_value, stacked
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, fields_in, hidden_field
from headrace.streaming.rasters import Raster
from headrace.streaming.samples.fields import (
    AUDIO_NAMES,
    OF_LATENTS,
    OF_SAMPLES,
    VALID_FRAMES,
    audio_names,
    called,
    flaw,
    is_number,
)
from headrace.streaming.settings import ArrayType

T = TypeVar("T")
Sample: TypeAlias = dict[str, Any]
"""A sample for users: `__key__`, `audio` (or named audio fields, and `__audio__`, their names) and `sample_rate`,
`encoder_hidden` and `encoder_length`, `metadata`."""

NameOf: TypeAlias = Callable[[int], str]
"""The name of a batch's row in messages."""

_APART = 'give each kind a stream of its own, with batching_method="per_stream": then each batch is of one stream'


@dataclass(slots=True)
class Audio:
    """The audio of a batch.

    Attributes:
        fields: float32 (B, C, N) of each audio field, zero after each row's end; C may differ between fields.
        num_frames: int64 (B,).
        sample_rate_hz: int64 (B,); 0 in padding rows.
        offsets: int64 (B,), `frame_offset`: the first stored frame that a crop kept; None without a crop.
    """

    fields: dict[str, NDArray[np.float32]]
    num_frames: NDArray[np.int64]
    sample_rate_hz: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None


_HIDDEN = hidden_field()


@dataclass(slots=True)
class Latents:
    """One output of the latents of a batch.

    Attributes:
        hidden: (B, T, D) in the stored dtype, the field's padding after each row's end; bfloat16 as uint16. T is 1 for
            vectors.
        lengths: int64 (B,), `encoder_length`.
        dtype: name of the stored dtype.
        offsets: int64 (B,), `encoder_offset`: the first stored latent frame that a crop kept; None without a crop.
        field: the names of its fields.
    """

    hidden: NDArray[Any]
    lengths: NDArray[np.int64]
    dtype: str
    offsets: NDArray[np.int64] | None = None
    field: OutputField = _HIDDEN

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by the names of their fields."""
        if not self.field.has_time:
            return {self.field.values: self.hidden.reshape(len(self.hidden), self.hidden.shape[2])}
        found = {self.field.values: self.hidden, self.field.length: self.lengths}
        return found if self.offsets is None else found | {self.field.offset: self.offsets}

    def of_sample(self, whole: Mapping[str, Any], row: int) -> Sample:
        """The fields of one row, without padding; `whole` has the batch's as users get them."""
        values = whole[self.field.values][row]
        if not self.field.has_time:
            return {self.field.values: values}
        count = int(self.lengths[row])
        found: Sample = {self.field.values: values[:count], self.field.length: count}
        return found if self.offsets is None else found | {self.field.offset: int(self.offsets[row])}

    def blank(self, row: int) -> None:
        """Make a row padding."""
        self.hidden[row] = self.field.padding
        self.lengths[row] = 0
        if self.offsets is not None:
            self.offsets[row] = 0


@dataclass(slots=True)
class Batch:
    """One rank's rows of a global batch.

    Attributes:
        keys: `''` in padding rows.
        metadata: the samples' JSON; `{}` in padding rows.
        is_padding: bool (B,).
        audio: None if samples have no audio.
        latents: by the names of their values; empty if samples have no latents.
        numbers: int64 (B,) each, by name: fields such as `sample_rate`, if a transform removed the audio or latents
            that they describe; 0 in padding rows.
        stacked: other fields whose values have one shape; zeros in padding rows.
        extra: other fields, one value for each row; empty text or None in padding rows.
        errors: messages of the errors of skipped rows.
        has_metadata: whether `metadata` is a field of the batch.
        changed: what the user's function of whole batches made of the batch; None without such a function.
    """

    keys: list[str]
    metadata: list[dict[str, Any]]
    is_padding: NDArray[np.bool_]
    audio: Audio | None = None
    latents: dict[str, Latents] = field(default_factory=dict)
    numbers: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    stacked: dict[str, StackedField] = field(default_factory=dict)
    extra: dict[str, list[Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    has_metadata: bool = True
    changed: Any = None

    def samples(self, output: ArrayType) -> list[Sample]:
        """The rows as samples for a `collate_fn`: views without padding at their ends."""
        whole = self.to_dict(output)
        return [self._sample(whole, row) for row in range(len(self.keys))]

    def _sample(self, whole: dict[str, Any], row: int) -> Sample:
        sample: Sample = {"__key__": self.keys[row]}
        if self.has_metadata:
            sample["metadata"] = self.metadata[row]
        if self.is_padding[row]:
            sample["is_padding"] = True
        if self.audio is not None:
            num_frames = int(self.audio.num_frames[row])
            sample |= {name: whole[name][row, :, :num_frames] for name in self.audio.fields}
            if self.audio.fields.keys() != {AUDIO}:
                sample[AUDIO_NAMES] = tuple(self.audio.fields)
            sample["sample_rate"] = int(self.audio.sample_rate_hz[row])
            if self.audio.offsets is not None:
                sample["frame_offset"] = int(self.audio.offsets[row])
        for latents in self.latents.values():
            sample |= latents.of_sample(whole, row)
        if named := {name: latents.field for name, latents in self.latents.items() if latents.field.is_named}:
            sample[OUTPUT_FIELDS] = named
        sample |= {name: int(values[row]) for name, values in self.numbers.items()}
        for name, found in self.stacked.items():
            if name == VALID_FRAMES:
                continue  # a sample has no padding
            sample[name] = _one(found, whole[name], row)
        return sample | {name: values[row] for name, values in self.extra.items()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by the names of their fields; bfloat16 as uint16."""
        named: dict[str, NDArray[Any]] = {}
        if self.audio is not None:
            audio = self.audio
            named |= audio.fields | {"num_frames": audio.num_frames, "sample_rate": audio.sample_rate_hz}
            if audio.offsets is not None:
                named["frame_offset"] = audio.offsets
        for latents in self.latents.values():
            named |= latents.arrays()
        users = {name: found.values for name, found in self.stacked.items()}
        for name, found in self.stacked.items():
            if found.lengths is not None:
                users[name + LENGTH] = found.lengths
        return named | self.numbers | users | {"is_padding": self.is_padding}

    def to_dict(self, output: ArrayType) -> dict[str, Any]:
        """The batch for users, sharing memory with this one (only numpy's bfloat16 is widened to float32)."""
        named: dict[str, Any] = {"keys": self.keys, **self.extra}
        if self.has_metadata:
            named["metadata"] = self.metadata
        narrow = {name for name, latents in self.latents.items() if latents.dtype == BFLOAT16}
        narrow |= {name for name, found in self.stacked.items() if found.dtype == BFLOAT16}
        for name, array in self.arrays().items():
            if output is ArrayType.TORCH:
                named[name] = _tensor(array, is_bfloat16=name in narrow)
            else:
                named[name] = widen_bfloat16(array) if name in narrow else array
        return named


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
    return stack(samples, Arena(0), pad=pad or {}).to_dict(ArrayType.TORCH)


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
            add_users(batch, name, [sample.get(name) for sample in samples], allocator, pad.get(name))
    arrays = batch.arrays()
    left = (name for name in names if name not in arrays and (is_number(name) or name in of_outputs))
    batch.numbers = {name: _numbers(samples, name) for name in left}
    return batch


def add_valid_frames(batch: Batch, allocator: Allocator) -> None:
    """Add the field `valid_frames`, bool (B, N), to a batch with audio."""
    if batch.audio is None:
        return
    length = next(iter(batch.audio.fields.values())).shape[2]
    valid = allocator.empty((len(batch.keys), length), np.bool_)
    np.less(np.arange(length), batch.audio.num_frames[:, None], out=valid)
    batch.stacked[VALID_FRAMES] = StackedField(valid, ValueKind.ARRAY, "bool")


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


def _one(found: StackedField, whole: Any, row: int) -> Any:  # noqa: ANN401 - a user's
    """A row's value as the sample had it: a number, an array, or for a tensor the batch's kind of array."""
    stop = None if found.lengths is None else int(found.lengths[row])
    if stop is not None:
        return (found.values if found.origin is ValueKind.ARRAY and found.dtype != BFLOAT16 else whole)[row][:stop]
    if found.origin is ValueKind.SCALAR:
        return found.values[row].item()
    if found.origin is ValueKind.ARRAY and found.dtype != BFLOAT16:
        return found.values[row]
    return whole[row]


def _check_padded(pad: Mapping[str, float], names: Collection[str], samples: Sequence[Sample], name_of: NameOf) -> None:
    """Raise `ConfigError` if a sample lacks a field that is to be padded, or has a field with the name of lengths."""
    for name in pad:
        if all(sample.get("is_padding", False) for sample in samples):
            return
        if name not in names:
            raise ConfigError(f"pad: no sample of a batch has a field {name!r}; they have {', '.join(sorted(names))}")
        if any(name in audio_names(sample) for sample in samples):
            raise ConfigError(padded_with_zeros(name))
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
    length = max(array.shape[0] for array, _ in real.values())
    out = allocator.empty((len(samples), length, width), storage_dtype(dtype))
    lengths = [
        0 if pair is None else int(sample.get(field.length, len(pair[0])))
        for sample, pair in zip(samples, pairs, strict=True)
    ]
    for row, pair, count in zip(out, pairs, lengths, strict=True):
        if pair is not None:
            row[:count] = pair[0][:count]
        row[count:] = field.padding
    offsets = _numbers_of_some(samples, field.offset) if field.has_time else None
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


def _tensor(array: NDArray[Any], *, is_bfloat16: bool) -> Any:  # noqa: ANN401 - torch is imported late
    import torch

    owner: Any = array.base  # a tensor if torch allocated the memory (`pinning`)
    tensor = owner.view(array.shape) if isinstance(owner, torch.Tensor) else torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if is_bfloat16 else tensor
