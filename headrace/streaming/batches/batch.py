"""Defines a batch, its fields, shapes and padding; docs/batches.md lists them for users. `stacking` stacks samples."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.format.indexes.audio_fields import AUDIO
from headrace.format.tensors.tensors import BFLOAT16, widen_bfloat16
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.ragged_fields import LENGTH
from headrace.streaming.batches.user_fields import StackedField, ValueKind
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, hidden_field
from headrace.streaming.samples.fields import AUDIO_NAMES, VALID_FRAMES
from headrace.streaming.settings import ArrayType

Sample: TypeAlias = dict[str, Any]
"""A sample for users: `__key__`, `audio` (or named audio fields, and `__audio__`, their names) and `sample_rate`,
`encoder_hidden` and `encoder_length`, `metadata`."""


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
        offsets: int64 (B,), `encoder_offset`: the first stored latent frame that a crop kept, or the number of the
            vector that was drawn; None without a crop or a choice.
        field: the names of its fields.
    """

    hidden: NDArray[Any]
    lengths: NDArray[np.int64]
    dtype: str
    offsets: NDArray[np.int64] | None = None
    field: OutputField = _HIDDEN

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by the names of their fields."""
        found = {self.field.values: self.hidden, self.field.length: self.lengths}
        if not self.field.has_time:
            found = {self.field.values: self.hidden.reshape(len(self.hidden), self.hidden.shape[2])}
        return found if self.offsets is None else found | {self.field.offset: self.offsets}

    def of_sample(self, whole: Mapping[str, Any], row: int) -> Sample:
        """The fields of one row, without padding; `whole` has the batch's as users get them."""
        values = whole[self.field.values][row]
        count = int(self.lengths[row])
        found: Sample = {self.field.values: values[:count], self.field.length: count}
        if not self.field.has_time:
            found = {self.field.values: values}
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


def add_valid_frames(batch: Batch, allocator: Allocator) -> None:
    """Add the field `valid_frames`, bool (B, N), to a batch with audio."""
    if batch.audio is None:
        return
    length = next(iter(batch.audio.fields.values())).shape[2]
    valid = allocator.empty((len(batch.keys), length), np.bool_)
    np.less(np.arange(length), batch.audio.num_frames[:, None], out=valid)
    batch.stacked[VALID_FRAMES] = StackedField(valid, ValueKind.ARRAY, "bool")


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


def _tensor(array: NDArray[Any], *, is_bfloat16: bool) -> Any:  # noqa: ANN401 - torch is imported late
    import torch

    owner: Any = array.base  # a tensor if torch allocated the memory (`pinning`)
    tensor = owner.view(array.shape) if isinstance(owner, torch.Tensor) else torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if is_bfloat16 else tensor
