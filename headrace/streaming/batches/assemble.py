"""One batch, from its plan to its arrays, in three steps that threads may share out.

`prepare` opens what the batch needs and, where lengths are known from the indexes, allocates its arrays; `fill` decodes
some rows; `finish` gives the batch. Rows of one batch may be filled by several threads at once. Owns the choice between
copying the batch whole, filling it in place, and going sample by sample (a transform, resampling, or lengths that no
index knows); all give the same batch, and tests hold it so. No threads are started here.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.errors import AudioError, ConfigError, FormatError, HeadraceError, IntegrityError, SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch, Sample, padding_like, stack
from headrace.streaming.batches.copied import CopiedBatch, gathered
from headrace.streaming.batches.decode import read_sample
from headrace.streaming.batches.in_place import InPlaceBatch, can_fill_in_place
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.rows import Row, StreamReader
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING
from headrace.streaming.settings import OnBadSample

_PATTERN_ATTEMPTS = 8


@dataclass(slots=True)
class Prepared:
    """A batch being made: copied whole; or else in place; or else of samples.

    Attributes:
        plan: which batch.
        copied: the batch that is merely copied; None when it is made row by row.
        rows: None for padding.
        in_place: the batch that rows are decoded into; None when the samples are made one by one.
        samples: the samples made one by one.
        pattern: what padding looks like in a batch that holds nothing else.
        faults: what was wrong with the rows that were skipped.
    """

    plan: BatchPlan
    copied: CopiedBatch | None = None
    rows: list[Row | None] = field(default_factory=list)
    in_place: InPlaceBatch | None = None
    samples: list[Sample | None] = field(default_factory=list)
    pattern: Sample | None = None
    faults: dict[int, SampleError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def is_copied(self) -> bool:
        """Whether it is filled in one call, as no part of it can be."""
        return self.copied is not None


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
        if (found := self.prepare_copied([plan])) is not None:
            return found[0]
        prepared = Prepared(plan)
        self._open_rows(prepared)
        return prepared

    def prepare_copied(self, plans: Sequence[BatchPlan]) -> list[Prepared] | None:
        """Open what batches of one epoch need that are all merely copied; None if any is not. Nothing is allocated."""
        found = gathered(self._streams, plans, self._recipe)
        if found is None:
            return None
        suffix = self._recipe.suffixes[0]
        return [Prepared(plan, CopiedBatch(batch, suffix)) for plan, batch in zip(plans, found, strict=True)]

    def fill(self, prepared: Prepared, start: int, stop: int) -> None:
        """Decode rows [start, stop); all of them if the batch is copied.

        Raises:
            SampleError: a row cannot be read, naming shard, key and reason (`on_bad_sample="raise"`).
        """
        if prepared.copied is not None:
            if prepared.copied.read(self._allocator):
                return
            prepared.copied = None  # row by row, what is wrong shows
            self._open_rows(prepared)
        for place in range(start, stop):
            self._fill(prepared, place)

    def _open_rows(self, prepared: Prepared) -> None:
        prepared.rows = self.rows(prepared.plan)
        if can_fill_in_place(prepared.rows, self._config):
            prepared.in_place = InPlaceBatch(prepared.rows, self._recipe, prepared.plan.epoch, self._allocator)
        else:
            prepared.samples = [None] * len(prepared)
            if all(row is None for row in prepared.rows):
                prepared.pattern = self.pattern(prepared.plan.epoch)

    def _fill(self, prepared: Prepared, place: int) -> None:
        row = prepared.rows[place]
        try:
            if prepared.in_place is not None:
                prepared.in_place.fill(place)
            elif row is not None:
                sample = self._sample(row, prepared.plan.epoch)
                self._recipe.check(sample)
                prepared.samples[place] = sample
        except ConfigError:
            raise
        except Exception as error:  # a transform raises what it likes
            if row is None:
                raise
            _doubt(row, error)
            fault = sample_error(row, error)
            if self._config.on_bad_sample is OnBadSample.RAISE:
                raise fault from error
            prepared.faults[place] = fault

    def finish(self, prepared: Prepared) -> Batch:
        """The batch, once all rows are filled; skipped rows become padding."""
        if prepared.copied is not None:
            batch = prepared.copied.batch
        elif prepared.in_place is None:
            batch = stack(self._padded(prepared), self._allocator, lambda place: _called(prepared.rows[place]))
        else:
            batch = prepared.in_place.batch
            if prepared.faults:
                prepared.in_place.drop(prepared.faults)
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
            _doubt(row, error)
            raise sample_error(row, error) from error

    def pattern(self, epoch: int) -> Sample:
        """Some sample, for the shapes of padding where there is nothing else: the first that can be read."""
        for stream in self._streams:
            for number in range(min(_PATTERN_ATTEMPTS, int(stream.locator.offsets[-1]))):
                with contextlib.suppress(SampleError):
                    sample = self.sample(stream.rows(np.array([number]), [number], patient=False)[0], epoch)
                    self._recipe.check(sample)
                    return sample
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

    def _sample(self, row: Row, epoch: int) -> Sample:
        sample = read_sample(row, self._recipe.suffixes, self._recipe.crop.of(row, epoch), self._config)
        return self._recipe.transformed(sample, epoch, row.position)

    def _padded(self, prepared: Prepared) -> list[Sample]:
        """Rows that are missing as padding with the shapes of the first that is there."""
        pattern = prepared.pattern or next((sample for sample in prepared.samples if sample is not None), None)
        if pattern is None:  # all were skipped
            pattern = self.pattern(prepared.plan.epoch)
        return [padding_like(pattern) if sample is None else sample for sample in prepared.samples]


def _doubt(row: Row, error: Exception) -> None:
    """What is damaged does not stay in the cache."""
    if isinstance(error, AudioError | FormatError | IntegrityError):
        for part in row.parts:
            if part is not None:
                part.access.doubt(part.shard)


def sample_error(row: Row, error: Exception) -> SampleError:
    """The error of one sample, naming shard, key and reason."""
    reason = f"{error}" if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
    return SampleError(f"{row.primary.called}: {reason}")


def _called(row: Row | None) -> str:
    return "padding" if row is None else row.primary.called
