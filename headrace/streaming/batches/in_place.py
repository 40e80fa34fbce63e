"""Batches whose arrays are filled in place: FLAC is decoded, and raw latents are read, straight into their rows.

Owns when that can be done (every length is known from the indexes, and nothing needs a sample as a whole) and doing it.
Several threads may fill rows of one batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import (
    Audio,
    Batch,
    Latents,
    NameOf,
    check_channels,
    check_width,
    storage_dtype,
)
from headrace.streaming.batches.bounds import is_likely
from headrace.streaming.batches.crop import Cut, Window
from headrace.streaming.batches.decode import fill_flac, fill_latents, metadata, read_around
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.rows import Part, Row
from headrace.streaming.settings import SampleConfig

NOTHING: Window = (0, 0)


class Kind(Enum):
    """What the primary parts of a batch hold."""

    AUDIO = auto()
    LATENTS = auto()


@dataclass(frozen=True, slots=True)
class _LatentColumn:
    """The latents of one folder in a batch: the primary's, or joined ones.

    Attributes:
        parts: one a row; None for padding.
        windows: what is kept of each.
        latents: where they go.
    """

    parts: list[Part | None]
    windows: list[Window]
    latents: Latents

    def fill(self, place: int) -> None:
        """Fill one row."""
        if (part := self.parts[place]) is not None:
            fill_latents(part, self.latents.hidden[place], self.windows[place])


class InPlaceBatch:
    """A batch being filled in place (`prepared.RowFiller`)."""

    def __init__(self, rows: Sequence[Row | None], recipe: Recipe, epoch: int, allocator: Allocator) -> None:
        """Allocate the batch of rows that have a common kind; None for padding.

        Raises:
            ConfigError: the rows differ in channels, or in the width of their latents.
        """
        self.batch = Batch([""] * len(rows), [{} for _ in rows], np.array([row is None for row in rows]))
        self._primary = [None if row is None else row.primary for row in rows]
        cuts = [None if row is None else recipe.crop.of(row, epoch) for row in rows]
        self._windows = [NOTHING if cut is None else _window(cut) for cut in cuts]
        self._crops = recipe.config.crops
        self._allocator = allocator
        self._columns: list[_LatentColumn] = []
        real = [part for part in self._primary if part is not None]
        if real[0].audio() is not None:
            self.batch.audio = _empty_audio(self._primary, self._windows, allocator)
            self.batch.audio.offsets = self._offsets(self._windows)
        else:
            self._add_latents(recipe.suffixes[0], self._primary, self._windows, allocator)
        for number, suffix in enumerate(recipe.suffixes[1:]):
            parts = [None if row is None else row.joined[number] for row in rows]
            windows = [NOTHING if cut is None else _joined_window(cut, number) for cut in cuts]
            self._add_latents(suffix, parts, windows, allocator)
        for name in dict.fromkeys(name for part in real for name, _ in part.extra()):
            self.batch.extra[name] = [None] * len(rows)

    def fill(self, place: int) -> None:
        """See `RowFiller`.

        Raises:
            AudioError: its audio cannot be decoded.
            IntegrityError: its shard is shorter than its index says.
            FormatError: its JSON is none, or its latents are fewer than they say.
        """
        batch, part = self.batch, self._primary[place]
        if part is None:
            self._blank(place)
            return
        start, blob = read_around(part)
        if batch.audio is not None and (found := part.audio()) is not None:
            (first, last), _ = found
            fill_flac(blob[first - start : last - start], batch.audio.samples[place], self._windows[place])
        for column in self._columns:
            column.fill(place)
        for name, (first, last) in part.extra():
            batch.extra[name][place] = bytes(blob[first - start : last - start])
        batch.keys[place] = part.key
        batch.metadata[place] = metadata(part, start, blob)

    def finish(self, dropped: Mapping[int, SampleError]) -> Batch:
        """See `RowFiller`."""
        for place in dropped:
            self._blank(place)
        if dropped:
            self._shorten()
        return self.batch

    def _shorten(self) -> None:
        """Make the batch as long as the longest row that is left."""
        kept = [place for place, is_padding in enumerate(self.batch.is_padding.tolist()) if not is_padding]
        if not kept:
            return
        if (audio := self.batch.audio) is not None:
            length = max(self._windows[place][1] for place in kept)
            audio.samples = self._cut(audio.samples, (*audio.samples.shape[:2], length))
        for column in self._columns:
            latents = column.latents
            length = max(column.windows[place][1] for place in kept)
            latents.hidden = self._cut(latents.hidden, (len(latents.hidden), length, latents.hidden.shape[2]))

    def _cut(self, array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """An array's beginning, in memory of its own: what travels begins where its memory does."""
        if array.shape == shape:
            return array
        cut = self._allocator.empty(shape, array.dtype)
        cut[:] = array[tuple(map(slice, shape))]
        return cut

    def _blank(self, place: int) -> None:
        """Make a row padding: zeros, no key."""
        batch = self.batch
        batch.keys[place], batch.metadata[place], batch.is_padding[place] = "", {}, True
        for array in batch.arrays().values():
            if array is not batch.is_padding:
                array[place] = 0
        for values in batch.extra.values():
            values[place] = None

    def _add_latents(self, suffix: str, parts: list[Part | None], windows: list[Window], allocator: Allocator) -> None:
        latents = _empty_latents(parts, windows, allocator)
        latents.offsets = self._offsets(windows)
        self.batch.latents[suffix] = latents
        self._columns.append(_LatentColumn(parts, windows, latents))

    def _offsets(self, windows: Sequence[Window]) -> NDArray[np.int64] | None:
        return np.array([first for first, _ in windows], np.int64) if self._crops else None


def can_fill_in_place(rows: Sequence[Row | None], config: SampleConfig) -> bool:
    """Whether the length of every row is known and likely, and nothing needs a sample as a whole."""
    present = [row for row in rows if row is not None]
    if not present or config.transform is not None:
        return False
    if config.sample_rate_hz is not None and {row.primary.sample_rate_hz for row in present} != {config.sample_rate_hz}:
        return False
    kinds = {_kind(row) for row in present}
    return len(kinds) == 1 and None not in kinds


def _kind(row: Row) -> Kind | None:
    """What rows must have in common; None for a row that cannot be filled in place."""
    part = row.primary
    for joined in row.joined:
        if joined is None or joined.tensor is None or not is_likely(joined):
            return None
    if not is_likely(part):
        return None
    if (found := part.audio()) is not None:
        _, is_flac = found
        if part.span(part.layout.latents) is not None:  # both in one sample: nothing knows the latents' length yet
            return None
        return Kind.AUDIO if is_flac and part.num_frames > 0 else None
    return Kind.LATENTS if part.tensor is not None else None


def _window(cut: Cut) -> Window:
    part = cut.row.primary
    if part.tensor is None or part.audio() is not None:
        return cut.primary(part.num_frames, part.sample_rate_hz)
    return cut.primary(part.tensor.num_frames, part.latent_rate_hz)


def _joined_window(cut: Cut, number: int) -> Window:
    part = cut.row.joined[number]
    return NOTHING if part is None or part.tensor is None else cut.joined(number, part.tensor.num_frames)


def _empty_audio(parts: Sequence[Part | None], windows: Sequence[Window], allocator: Allocator) -> Audio:
    channels = check_channels(
        {row: part.num_channels for row, part in enumerate(parts) if part is not None}, _name_of(parts)
    )
    lengths = np.array([count for _, count in windows], np.int64)
    samples = allocator.empty((len(parts), channels, int(lengths.max())), np.float32)
    rates = np.array([0 if part is None else part.sample_rate_hz for part in parts], np.int64)
    return Audio(samples, lengths, rates)


def _empty_latents(parts: Sequence[Part | None], windows: Sequence[Window], allocator: Allocator) -> Latents:
    width, dtype = check_width(
        {
            row: (part.tensor.width, part.tensor_dtype)
            for row, part in enumerate(parts)
            if part is not None and part.tensor is not None
        },
        _name_of(parts),
    )
    shape = (len(parts), max(count for _, count in windows), width)
    lengths = [
        0 if part is None else max(0, min(part.num_frames - first, count))
        for part, (first, count) in zip(parts, windows, strict=True)
    ]
    return Latents(allocator.empty(shape, storage_dtype(dtype)), np.array(lengths, np.int64), dtype)


def _name_of(parts: Sequence[Part | None]) -> NameOf:
    def name_of(row: int) -> str:
        part = parts[row]
        return "padding" if part is None else part.called

    return name_of
