"""One batch, from its plan to its arrays, in three steps that threads may share out.

`prepare` opens what the batch needs and, where lengths are known from the indexes, allocates its arrays; `fill` decodes
some rows; `finish` gives the batch. Rows of one batch may be filled by several threads at once. Owns the choice between
decoding straight into the batch and going sample by sample (a transform, resampling, or lengths that no index knows);
both give the same batch, and a test holds it so. No threads are started here.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, HeadraceError, SampleError
from headrace.index import ABSENT
from headrace.streaming.arena import Allocator
from headrace.streaming.batch import (
    Audio,
    Batch,
    Latents,
    Sample,
    check_channels,
    check_width,
    padding_like,
    stack,
    storage_dtype,
)
from headrace.streaming.bijection import mix
from headrace.streaming.decode import Window, fill_flac, fill_latents, metadata, read_around, read_sample
from headrace.streaming.order import PADDING, Rows
from headrace.streaming.rows import Part, Row, StreamReader
from headrace.streaming.settings import OnBadSample, SampleConfig

_PATTERN_ATTEMPTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class BatchPlan:
    """One rank's rows of one global batch.

    Attributes:
        epoch: number of the epoch.
        rows: which samples.
        positions: int64 (B,), the row of the epoch that each is: seeds of what is random about a sample.
        patient: wait for shards that are on their way; False in a cold start, which fetches samples by ranged reads.
    """

    epoch: int
    rows: Rows
    positions: NDArray[np.int64]
    patient: bool = True


@dataclass(slots=True)
class Prepared:
    """A batch being made.

    Attributes:
        rows: None for padding.
        windows: what is kept of each row.
        batch: the arrays that rows are decoded into; None when the samples are made one by one.
        samples: the samples made one by one.
        pattern: what padding looks like in a batch that holds nothing else.
        faults: what was wrong with the rows that were skipped.
    """

    rows: list[Row | None]
    windows: list[Window]
    batch: Batch | None = None
    samples: list[Sample | None] = field(default_factory=list)
    pattern: Sample | None = None
    faults: dict[int, SampleError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_light(self) -> bool:
        """Whether filling it takes no more than copying: raw latents from files."""
        return self.batch is not None and self.batch.audio is None


@dataclass(frozen=True, slots=True)
class Recipe:
    """What batches are made of, besides their plans.

    Attributes:
        config: what each sample becomes.
        seed: the shuffle's seed, which also seeds crops.
        suffixes: what is added to `encoder_hidden` for the primary and for each joined latents folder.
    """

    config: SampleConfig
    seed: int
    suffixes: tuple[str, ...] = ("",)


class Assembler:
    """Makes batches from plans; safe for threads."""

    def __init__(self, streams: Sequence[StreamReader], recipe: Recipe, allocator: Allocator) -> None:
        self._streams = streams
        self._recipe = recipe
        self._config = recipe.config
        self._allocator = allocator

    def assemble(self, plan: BatchPlan) -> Batch:
        """All three steps in this thread."""
        prepared = self.prepare(plan)
        self.fill(prepared, 0, len(prepared))
        return self.finish(prepared)

    def prepare(self, plan: BatchPlan) -> Prepared:
        """Open what the batch needs. Reads indexes, and bytes that no local file holds."""
        rows = self.rows(plan)
        prepared = Prepared(rows, [(0, 0)] * len(rows), samples=[None] * len(rows))
        if self._is_direct([row for row in rows if row is not None]):
            prepared.windows = [
                (0, 0) if row is None else self._window(row, plan.epoch, _stored_frames(row)) for row in rows
            ]
            prepared.batch = self._allocate(prepared)
        else:
            prepared.windows = [(plan.epoch, 0)] * len(rows)
            if all(row is None for row in rows):
                prepared.pattern = self.pattern(plan.epoch)
        return prepared

    def fill(self, prepared: Prepared, start: int, stop: int) -> None:
        """Decode rows [start, stop).

        Raises:
            SampleError: a row cannot be read, naming shard, key and reason (`on_bad_sample="raise"`).
        """
        for place in range(start, stop):
            row = prepared.rows[place]
            try:
                self._fill_row(prepared, place, row)
            except ConfigError:
                raise
            except Exception as error:  # a transform raises what it likes
                if row is None:
                    raise
                fault = sample_error(row, error)
                if self._config.on_bad_sample is OnBadSample.RAISE:
                    raise fault from error
                prepared.faults[place] = fault

    def finish(self, prepared: Prepared) -> Batch:
        """The batch, once all rows are filled; skipped rows become padding."""
        batch = prepared.batch
        if batch is None:
            batch = stack(self._padded(prepared), self._allocator)
        else:
            for place in prepared.faults:
                _blank(batch, place)
        batch.faults = [str(fault) for fault in prepared.faults.values()]
        return batch

    def sample(self, row: Row, epoch: int) -> Sample:
        """One sample, transformed.

        Raises:
            SampleError: it cannot be read.
        """
        try:
            return self._sample(row, epoch)
        except ConfigError:
            raise
        except Exception as error:
            raise sample_error(row, error) from error

    def pattern(self, epoch: int) -> Sample:
        """Some sample, for the shapes of padding where there is nothing else: the first that can be read."""
        for stream in self._streams:
            for number in range(min(_PATTERN_ATTEMPTS, int(stream.locator.offsets[-1]))):
                with contextlib.suppress(SampleError):
                    return self.sample(stream.rows(np.array([number]), [number], patient=False)[0], epoch)
        return {"__key__": ""}

    def rows(self, plan: BatchPlan) -> list[Row | None]:
        """The batch's rows, their shards opened; None for padding."""
        rows: list[Row | None] = [None] * len(plan.rows)
        ids = plan.rows.sample_ids
        for number, stream in enumerate(self._streams):
            places = np.flatnonzero((plan.rows.stream_ids == number) & (ids != PADDING))
            found = stream.rows(ids[places], plan.positions[places].tolist(), patient=plan.patient)
            for place, row in zip(places.tolist(), found, strict=True):
                rows[place] = row
        return rows

    def _is_direct(self, rows: Sequence[Row]) -> bool:
        """Whether every row's length is known and nothing needs the sample as a whole."""
        if not rows or self._config.transform is not None:
            return False
        rates = {row.primary.sample_rate_hz for row in rows}
        if self._config.sample_rate_hz is not None and rates != {self._config.sample_rate_hz}:
            return False
        kinds = {_kind(row) for row in rows}
        return len(kinds) == 1 and None not in kinds

    def _window(self, row: Row, epoch: int, num_frames: int) -> Window:
        """What the crop keeps of a sample: drawn from seed, epoch and position, so the same on every world."""
        config, rate = self._config, row.primary.sample_rate_hz
        wanted = round(config.crop_seconds * rate) if config.crop_seconds and rate else config.crop_frames
        if wanted is None or wanted >= num_frames:
            return 0, num_frames
        draw = int(mix(self._recipe.seed, epoch, row.position)) % (num_frames - wanted + 1)
        return draw, wanted

    def _allocate(self, prepared: Prepared) -> Batch:
        rows, num_rows = prepared.rows, len(prepared.rows)
        batch = Batch([""] * num_rows, [{} for _ in rows], np.array([row is None for row in rows]))
        primaries = [None if row is None else row.primary for row in rows]
        real = [part for part in primaries if part is not None]
        if real[0].audio() is not None:
            batch.audio = self._allocate_audio(primaries, prepared.windows)
        else:
            batch.latents[""] = self._allocate_latents(primaries, prepared.windows)
        for place, suffix in enumerate(self._recipe.suffixes[1:]):
            parts = [None if row is None else row.joined[place] for row in rows]
            whole = [(0, 0) if part is None else (0, part.tensor[2]) for part in parts]
            batch.latents[suffix] = self._allocate_latents(parts, whole)
        for name in dict.fromkeys(name for part in real for name, _ in part.extra()):
            batch.extra[name] = [None] * num_rows
        return batch

    def _allocate_audio(self, parts: Sequence[Part | None], windows: Sequence[Window]) -> Audio:
        channels = check_channels([part.num_channels for part in parts if part is not None])
        lengths = np.array([count for _, count in windows], np.int64)
        samples = self._allocator.empty((len(parts), channels, int(lengths.max())), np.float32)
        rates = np.array([0 if part is None else part.sample_rate_hz for part in parts], np.int64)
        return Audio(samples, lengths, rates)

    def _allocate_latents(self, parts: Sequence[Part | None], windows: Sequence[Window]) -> Latents:
        width, dtype = check_width([(part.tensor[3], part.tensor_dtype) for part in parts if part is not None])
        shape = (len(parts), max(count for _, count in windows), width)
        lengths = [
            0 if part is None else max(0, min(part.num_frames - first, count))
            for part, (first, count) in zip(parts, windows, strict=True)
        ]
        return Latents(self._allocator.empty(shape, storage_dtype(dtype)), np.array(lengths, np.int64), dtype)

    def _fill_row(self, prepared: Prepared, place: int, row: Row | None) -> None:
        batch = prepared.batch
        if batch is None:
            prepared.samples[place] = None if row is None else self._sample(row, prepared.windows[place][0])
        elif row is None:
            _blank(batch, place)
        else:
            self._fill_arrays(batch, place, row, prepared.windows[place])

    def _fill_arrays(self, batch: Batch, place: int, row: Row, window: Window) -> None:
        part = row.primary
        start, blob = read_around(part)
        if batch.audio is not None:
            found = part.audio()
            assert found is not None
            span, _ = found
            fill_flac(blob[span[0] - start : span[1] - start], batch.audio.samples[place], window)
        else:
            fill_latents(part, batch.latents[""].hidden[place], window)
        for joined, suffix in zip(row.joined, self._recipe.suffixes[1:], strict=True):
            assert joined is not None
            fill_latents(joined, batch.latents[suffix].hidden[place], (0, joined.tensor[2]))
        for name, span in part.extra():
            batch.extra[name][place] = bytes(blob[span[0] - start : span[1] - start])
        batch.keys[place] = part.key
        batch.metadata[place] = metadata(part, start, blob)

    def _sample(self, row: Row, epoch: int) -> Sample:
        sample = read_sample(row, self._recipe.suffixes, lambda n: self._window(row, epoch, n), self._config)
        if self._config.transform is None:
            return sample
        changed = self._config.transform(sample)
        if changed is None:
            raise TypeError("the transform gave None: let it return the sample")
        return changed

    def _padded(self, prepared: Prepared) -> list[Sample]:
        """Rows that are missing as padding with the shapes of the first that is there."""
        pattern = prepared.pattern or next((sample for sample in prepared.samples if sample is not None), None)
        if pattern is None:  # all were skipped
            pattern = self.pattern(prepared.windows[0][0])
        return [padding_like(pattern) if sample is None else sample for sample in prepared.samples]


def sample_error(row: Row, error: Exception) -> SampleError:
    """The error of one sample, naming shard, key and reason."""
    reason = (
        f"{error}" if isinstance(error, HeadraceError | json.JSONDecodeError) else f"{type(error).__name__}: {error}"
    )
    return SampleError(f"{row.primary.shard_name}: sample {row.primary.key!r}: {reason}")


Kind = tuple[Any, ...]


def _kind(row: Row) -> Kind | None:
    """What rows must have in common to be decoded straight into one batch; None for a row that cannot be."""
    part = row.primary
    if any(joined is None or joined.tensor[0] == ABSENT for joined in row.joined):
        return None
    if (found := part.audio()) is not None:
        _, is_flac = found
        return ("audio",) if is_flac and part.num_frames > 0 else None
    return ("latents",) if part.tensor[0] != ABSENT else None


def _stored_frames(row: Row) -> int:
    part = row.primary
    return part.num_frames if part.audio() is not None else part.tensor[2]


def _blank(batch: Batch, place: int) -> None:
    """Make a row padding: zeros, no key."""
    batch.keys[place], batch.metadata[place], batch.is_padding[place] = "", {}, True
    for array in batch.arrays().values():
        if array is not batch.is_padding:
            array[place] = 0
    for values in batch.extra.values():
        values[place] = None
