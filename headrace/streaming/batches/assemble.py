"""One batch, from its plan to its arrays.

`Assembler.prepare` opens what the batch needs and, where lengths are known from the indexes, allocates its arrays; what
it gives is filled and finished by whoever likes, also by several threads. Owns the choice between copying the batch
whole, filling it in place, and going sample by sample; all give the same batch, and tests hold it so.
"""

import contextlib
from collections.abc import Sequence

import numpy as np

from headrace.errors import ConfigError, SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch, Sample
from headrace.streaming.batches.copied import CopiedBatch, gathered
from headrace.streaming.batches.in_place import InPlaceBatch, can_fill_in_place
from headrace.streaming.batches.one_by_one import OneByOne, whole_sample
from headrace.streaming.batches.prepared import Copied, Prepared, RowByRow, RowFiller, fault_of
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.rows import Row, StreamReader
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING

_PATTERN_ATTEMPTS = 8


class Assembler:
    """Makes batches from plans; safe for threads."""

    def __init__(self, streams: Sequence[StreamReader], recipe: Recipe, allocator: Allocator) -> None:
        self._streams = streams
        self._recipe = recipe
        self._allocator = allocator

    def assemble(self, plan: BatchPlan) -> Batch:
        """A batch, all of it in this thread. Raises as `Prepared.fill`."""
        prepared = self.prepare(plan)
        prepared.fill(0, len(prepared))
        return prepared.finish()

    def prepare(self, plan: BatchPlan) -> Prepared:
        """Open what the batch needs. Reads indexes, and bytes that no local file holds."""
        if (found := self.prepare_copied([plan])) is not None:
            return found[0]
        return self._row_by_row(plan)

    def prepare_copied(self, plans: Sequence[BatchPlan]) -> list[Prepared] | None:
        """Open what batches of one epoch need that are all merely copied; None if any is not. Nothing is allocated.

        Opens one or more of the first of `plans`: as many as lie in few shards.
        """
        found = gathered(self._streams, plans, self._recipe)
        if found is None:
            return None
        return [self._copied(batch, plan) for batch, plan in zip(found, plans[: len(found)], strict=True)]

    def _copied(self, batch: CopiedBatch, plan: BatchPlan) -> Prepared:
        return Copied(batch, self._allocator, lambda: self._row_by_row(plan))

    def _row_by_row(self, plan: BatchPlan) -> RowByRow:
        rows, recipe, epoch = self.rows(plan), self._recipe, plan.epoch
        filler: RowFiller
        if can_fill_in_place(rows, recipe.config):
            filler = InPlaceBatch(rows, recipe, epoch, self._allocator)
        else:
            filler = OneByOne(rows, recipe, epoch, self._allocator, lambda: self.pattern(epoch))
        return RowByRow(rows, filler, recipe.config.on_bad_sample)

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

    def sample(self, row: Row, epoch: int) -> Sample:
        """One sample, transformed.

        Raises:
            SampleError: it cannot be read.
        """
        try:
            return whole_sample(row, self._recipe, epoch)
        except ConfigError:
            raise
        except Exception as error:
            raise fault_of(row, error) from error

    def pattern(self, epoch: int) -> Sample:
        """Some sample, for the shapes of padding where there is nothing else: the first that can be read."""
        for stream in self._streams:
            for number in range(min(_PATTERN_ATTEMPTS, int(stream.locator.offsets[-1]))):
                with contextlib.suppress(SampleError):
                    sample = self.sample(stream.rows(np.array([number]), [number], patient=False)[0], epoch)
                    self._recipe.check(sample)
                    return sample
        return {"__key__": ""}
