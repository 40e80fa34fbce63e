"""Makes batches in place: FLAC is decoded, and raw latents are read, directly into the rows of the batch's arrays.

`can_fill_in_place` says whether a batch qualifies: the indexes have every length, and no transform or resampling needs
whole samples. Several threads may fill rows of one batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.format.tensors.tensors import storage_dtype
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Audio, Batch, Latents, add_valid_frames
from headrace.streaming.batches.decode_audio import fill_audio
from headrace.streaming.batches.decode_latents import fill_latents
from headrace.streaming.batches.events import drawn_events, padded_grids
from headrace.streaming.batches.open_batch import RowErrors
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.batches.sample_bytes import extra, metadata, read_around
from headrace.streaming.batches.stacking import NameOf, add_users, check_channels, check_width
from headrace.streaming.batches.user_fields import StackedField, ValueKind, padding_value
from headrace.streaming.output_fields import OutputField
from headrace.streaming.samples.crop import FrameWindow, SampleCrop
from headrace.streaming.samples.decoded_fields import decoded
from headrace.streaming.samples.fields import START_SECONDS
from headrace.streaming.samples.plausibility import is_plausible
from headrace.streaming.samples.stored_sample import BatchRow, StoredSample
from headrace.streaming.settings import ArrayType, Decode

_NO_FRAMES: FrameWindow = (0, 0)
_ORIGINS = {ArrayType.TORCH: ValueKind.TENSOR, ArrayType.NUMPY: ValueKind.ARRAY}
_NO_BYTES = b""  # value of an extra field in padding rows


@dataclass(frozen=True, slots=True)
class _LatentField:
    """The latents of one folder in a batch: the stream's own, or joined ones.

    Attributes:
        samples: a sample for each row; None for padding.
        windows: frames that are kept of each.
        latents: the arrays to fill.
    """

    samples: list[StoredSample | None]
    windows: list[FrameWindow]
    latents: Latents

    def fill(self, place: int) -> None:
        """Fill one row."""
        if (sample := self.samples[place]) is not None:
            fill_latents(sample, self.latents.hidden[place], self.windows[place], self.latents.field.padding)


class InPlaceBatch:
    """A batch that is filled in place (`OpenBatch`)."""

    is_filled_whole = False

    def __init__(
        self, rows: Sequence[BatchRow | None], processing: SampleProcessing, epoch: int, allocator: Allocator
    ) -> None:
        """Allocate the batch.

        Args:
            rows: rows for which `can_fill_in_place` is true; None for padding.
            processing: how samples are cropped.
            epoch: number of the epoch, on which random crops depend.
            allocator: allocates the batch's arrays.

        Raises:
            ConfigError: the rows differ in channels, or in the width of their latents.
        """
        self.batch = Batch([""] * len(rows), [{} for _ in rows], np.array([row is None for row in rows]))
        self.batch.has_metadata = processing.has_metadata
        self._primary = [None if row is None else row.primary for row in rows]
        crops = [None if row is None else processing.crop.of(row, epoch) for row in rows]
        self._windows = [_NO_FRAMES if crop is None else _window(crop) for crop in crops]
        self._crops = processing.crop.cuts
        self._rows, self._crop_of, self._processing = rows, crops, processing
        self._grids: dict[int, dict[str, NDArray[Any]]] = {}
        self._decodes = processing.config.decode is Decode.BASIC
        self._allocator = allocator
        self._errors = RowErrors(rows, processing.config.on_bad_sample)
        self._latents: list[_LatentField] = []
        real = [sample for sample in self._primary if sample is not None]
        if real[0].audio():
            self._least = max((row.window.length for row in rows if row is not None and row.window), default=0)
            self.batch.audio = _empty_audio(self._primary, self._windows, allocator, self._least)
            self.batch.audio.offsets = self._offsets(self._windows)
        else:
            self._add_latents(processing.outputs[0], self._primary, self._windows, allocator)
        for number, field in enumerate(processing.outputs[1:]):
            samples = [None if row is None else row.joined[number] for row in rows]
            windows = [_NO_FRAMES if crop is None else _joined_window(crop, number) for crop in crops]
            self._add_latents(field, samples, windows, allocator)
        origin = _ORIGINS[processing.config.output]
        columns = next((row.columns for row in rows if row is not None), None)
        for tensor in columns.tensors() if columns else ():
            values = np.zeros((len(rows), *tensor.shape), tensor.dtype)
            self.batch.stacked[tensor.spec.name] = StackedField(values, origin, tensor.dtype)
        if self._crops:
            starts = np.array([0.0 if crop is None else crop.start_seconds for crop in crops])
            self.batch.stacked[START_SECONDS] = StackedField(starts, ValueKind.SCALAR, "float64")
        self._columns = [None if row is None else row.columns for row in rows]
        for name in dict.fromkeys(name for sample in real for name, _, _ in sample.extra()):
            if name not in self.batch.stacked:  # a class member that comes as a tensor
                self.batch.extra[name] = [None if row is not None else _NO_BYTES for row in rows]

    def __len__(self) -> int:
        """See `OpenBatch`."""
        return len(self._primary)

    def fill(self, start: int, stop: int) -> None:
        """See `OpenBatch`."""
        self._errors.fill(range(start, stop), self._fill_row)

    def finish(self) -> Batch:
        """See `OpenBatch`."""
        for place in self._errors.skipped:
            self._blank(place)
            self._grids.pop(place, None)
        for name, raster in self._processing.rasters.items():
            grids = {place: grids[name] for place, grids in self._grids.items()}
            origin = _ORIGINS[self._processing.config.output]
            self.batch.stacked[name] = padded_grids(grids, raster, len(self), self._allocator, origin)
        if self._errors.skipped:
            self._shorten()
        self.batch.errors = self._errors.messages
        if self._decodes:
            self._stack_extra()
        if self._processing.config.valid_frames:
            add_valid_frames(self.batch, self._allocator)
        return self.batch

    def _fill_row(self, place: int) -> None:
        """Fill one row.

        Raises:
            AudioError: its audio cannot be decoded.
            IntegrityError: its shard is shorter than its index says.
            FormatError: its JSON is not valid, or it has fewer latent frames than its `encoder_length`.
        """
        batch, sample = self.batch, self._primary[place]
        if sample is None:
            self._blank(place)
            return
        start, blob = read_around(sample)
        if batch.audio is not None:
            for found in sample.audio():
                out = batch.audio.fields[found.name][place]
                fill_audio(sample, found, (start, blob), out, self._windows[place])
        for field in self._latents:
            field.fill(place)
        for name, content in extra(sample, start, blob):
            if name in batch.extra:
                batch.extra[name][place] = decoded(name, content) if self._decodes else content
        batch.keys[place] = sample.key
        batch.metadata[place] = metadata(sample, start, blob)
        if (columns := self._columns[place]) is not None:
            columns.add_to(batch.metadata[place])
            for tensor, value in columns.numbers():
                batch.stacked[tensor.spec.name].values[place] = value
        row, crop = self._rows[place], self._crop_of[place]
        if row is not None and crop is not None:
            self._grids[place] = drawn_events(row, crop, batch.metadata[place])

    def _stack_extra(self) -> None:
        """Stack decoded fields whose values have one shape."""
        batch = self.batch
        fields, batch.extra = batch.extra, {}
        for name, values in fields.items():
            real = next(
                (value for value, is_padding in zip(values, batch.is_padding, strict=True) if not is_padding), b""
            )
            empty = padding_value(real)
            pairs = zip(values, batch.is_padding, strict=True)
            add_users(batch, name, [empty if is_padding else value for value, is_padding in pairs], self._allocator)

    def _shorten(self) -> None:
        """Shorten the batch to its longest row."""
        kept = [place for place, is_padding in enumerate(self.batch.is_padding.tolist()) if not is_padding]
        if not kept:
            return
        if (audio := self.batch.audio) is not None:
            length = max(self._least, *(self._windows[place][1] for place in kept))
            for name, samples in audio.fields.items():
                audio.fields[name] = self._shortened(samples, (*samples.shape[:2], length))
        for field in self._latents:
            latents = field.latents
            length = latents.field.room_for(max(field.windows[place][1] for place in kept))
            latents.hidden = self._shortened(latents.hidden, (len(latents.hidden), length, latents.hidden.shape[2]))

    def _shortened(self, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """The beginning of an array, copied: arrays that worker processes send must begin where their memory begins."""
        if array.shape == shape:
            return array
        shortened = self._allocator.empty(shape, array.dtype)
        shortened[:] = array[tuple(map(slice, shape))]
        return shortened

    def _blank(self, place: int) -> None:
        """Make a row padding: zeros, no key."""
        batch = self.batch
        batch.keys[place], batch.metadata[place], batch.is_padding[place] = "", {}, True
        for array in batch.arrays().values():
            if array is not batch.is_padding:
                array[place] = 0
        for latents in batch.latents.values():
            latents.blank(place)
        for values in batch.extra.values():
            values[place] = _NO_BYTES

    def _add_latents(
        self, field: OutputField, samples: list[StoredSample | None], windows: list[FrameWindow], allocator: Allocator
    ) -> None:
        latents = _empty_latents(samples, windows, field, allocator)
        if field.offset and (self._crops or field.is_choice):
            latents.offsets = np.array([first for first, _ in windows], np.int64)
        self.batch.latents[field.values] = latents
        self._latents.append(_LatentField(samples, windows, latents))

    def _offsets(self, windows: Sequence[FrameWindow]) -> NDArray[np.int64] | None:
        return np.array([first for first, _ in windows], np.int64) if self._crops else None


def can_fill_in_place(rows: Sequence[BatchRow | None], processing: SampleProcessing) -> bool:
    """Whether every row's length is known and plausible, and neither a transform nor resampling needs whole samples."""
    present, config = [row for row in rows if row is not None], processing.config
    if not present or config.transform is not None or processing.pads_fields or config.crop_min_dbfs is not None:
        return False
    if config.sample_rate_hz is not None and {row.primary.sample_rate_hz for row in present} != {config.sample_rate_hz}:
        return False
    kinds = {_kind(row) for row in present}
    return len(kinds) == 1 and None not in kinds


def _kind(row: BatchRow) -> tuple[str, ...] | None:
    """The row's audio fields, none for latents; they must be the same for all rows. None if it cannot be filled."""
    sample = row.primary
    for joined in row.joined:
        if joined is None or joined.tensor is None or not is_plausible(joined):
            return None
    if not is_plausible(sample):
        return None
    fields, columns = sample.audio(), sample.columns
    if not fields:
        return () if sample.tensor is not None and not sample.is_of_audio else None
    is_known = sample.num_frames > 0 and len(fields) == len(columns.audio)
    for field in fields:
        is_known = is_known and field.num_channels > 0
    # Of latents beside audio, the index has no length.
    has_latents = sample.span(columns.latents) is not None or bool(sample.rejection)
    return columns.audio_names if is_known and not has_latents else None


def _window(crop: SampleCrop) -> FrameWindow:
    sample = crop.row.primary
    if sample.tensor is None or sample.audio():
        return crop.primary(sample.num_frames, sample.sample_rate_hz)
    return crop.own(sample.tensor.num_frames)


def _joined_window(crop: SampleCrop, number: int) -> FrameWindow:
    sample = crop.row.joined[number]
    return _NO_FRAMES if sample is None or sample.tensor is None else crop.joined(number, sample.tensor.num_frames)


def _empty_audio(
    stored: Sequence[StoredSample | None], windows: Sequence[FrameWindow], allocator: Allocator, least: int
) -> Audio:
    counts: dict[str, dict[int, int]] = {}
    for row, sample in enumerate(stored):
        for field in sample.audio() if sample is not None else ():
            counts.setdefault(field.name, {})[row] = field.num_channels
    channels = {name: check_channels(of_rows, _name_of(stored), name) for name, of_rows in counts.items()}
    lengths = np.array([count for _, count in windows], np.int64)
    longest = max(int(lengths.max()), least)
    fields = {name: allocator.empty((len(stored), count, longest), np.float32) for name, count in channels.items()}
    rates = np.array([0 if sample is None else sample.sample_rate_hz for sample in stored], np.int64)
    return Audio(fields, lengths, rates)


def _empty_latents(
    stored: Sequence[StoredSample | None], windows: Sequence[FrameWindow], field: OutputField, allocator: Allocator
) -> Latents:
    width, dtype = check_width(
        {
            row: (sample.tensor.width, sample.tensor_dtype)
            for row, sample in enumerate(stored)
            if sample is not None and sample.tensor is not None
        },
        _name_of(stored),
    )
    shape = (len(stored), field.room_for(max(count for _, count in windows)), width)
    lengths = [
        0 if sample is None else max(0, min(sample.num_frames - first, count))
        for sample, (first, count) in zip(stored, windows, strict=True)
    ]
    return Latents(allocator.empty(shape, storage_dtype(dtype)), np.array(lengths, np.int64), dtype, field=field)


def _name_of(stored: Sequence[StoredSample | None]) -> NameOf:
    def name_of(row: int) -> str:
        sample = stored[row]
        return "padding" if sample is None else sample.called

    return name_of
