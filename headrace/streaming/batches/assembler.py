"""Makes batches from batch plans: opens the shards, and chooses how each batch is filled.

The choice is made per batch, fastest way first: copied from local files (`CopiedBatch`), decoded in place
(`InPlaceBatch`), or sample by sample (`SampleBatch`). All three give the same batch.
"""

import contextlib
from collections.abc import Sequence

import numpy as np

from headrace.errors import ConfigError, SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.batch_transform import TransformedBatch
from headrace.streaming.batches.copied_batch import CopiedBatch, copy_plan
from headrace.streaming.batches.in_place_batch import InPlaceBatch, can_fill_in_place
from headrace.streaming.batches.open_batch import OpenBatch, read_again_if_damaged, sample_error
from headrace.streaming.batches.part_fetching import fetch_parts
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.batches.sample_batch import SampleBatch, whole_sample
from headrace.streaming.order.batch_plan import BatchPlan
from headrace.streaming.order.epoch_order import PADDING
from headrace.streaming.samples.missing_latents import row_to_read, with_empty_latents
from headrace.streaming.samples.stored_sample import BatchRow
from headrace.streaming.samples.stream_reader import StreamReader

_PATTERN_ATTEMPTS = 8


class Assembler:
    """Makes batches from plans; safe for threads."""

    def __init__(self, streams: Sequence[StreamReader], processing: SampleProcessing, allocator: Allocator) -> None:
        """Open nothing yet.

        Args:
            streams: the streams by number.
            processing: what is done to each sample.
            allocator: allocates the arrays of batches.
        """
        self._streams = streams
        self._processing = processing
        self._allocator = allocator

    def open(self, plan: BatchPlan) -> OpenBatch:
        """Open the shards of a batch. Reads indexes, and fetches bytes that are in no local file."""
        opened = self._opened(plan)
        if self._processing.config.batch_transform is None:
            return opened
        return TransformedBatch(opened, self._processing, plan)

    def _opened(self, plan: BatchPlan) -> OpenBatch:
        found = copy_plan(self._streams, plan, self._processing)
        if found is not None:
            field = self._processing.outputs[0]
            return CopiedBatch(found, field, self._allocator, lambda: self.open_row_by_row(plan))
        return self.open_row_by_row(plan)

    def open_row_by_row(self, plan: BatchPlan) -> OpenBatch:
        """`open` without the copy-only fast path."""
        rows, processing, epoch = self.rows(plan), self._processing, plan.epoch
        if can_fill_in_place(rows, processing):
            return InPlaceBatch(rows, processing, epoch, self._allocator)
        return SampleBatch(rows, processing, epoch, self._allocator, lambda: self.pattern(epoch))

    def rows(self, plan: BatchPlan) -> list[BatchRow | None]:
        """The batch's rows, with their shards open; None for padding, and for skipped samples without latents."""
        rows: list[BatchRow | None] = [None] * len(plan.rows)
        ids = plan.rows.sample_ids
        for number, stream in enumerate(self._streams):
            places = np.flatnonzero((plan.rows.stream_ids == number) & (ids != PADDING))
            found = stream.rows(ids[places], plan.positions[places].tolist(), patient=plan.patient)
            for place, row in zip(places.tolist(), found, strict=True):
                rows[place] = row_to_read(row, self._processing.config.on_missing_latents)
        fetch_parts(rows, self._processing.crop, plan.epoch)
        return rows

    def sample(self, row: BatchRow, epoch: int) -> Sample:
        """One sample, transformed.

        Raises:
            SampleError: the sample cannot be read.
        """
        try:
            chosen = row_to_read(row, self._processing.config.on_missing_latents) or row
            return read_again_if_damaged(lambda: whole_sample(chosen, self._processing, epoch), chosen)
        except ConfigError:
            raise
        except Exception as error:
            raise sample_error(row, error) from error

    def pattern(self, epoch: int) -> Sample:
        """The first sample that can be read, whose shapes padding rows have in a batch of padding only."""
        for changed in (_unchanged, with_empty_latents):  # latents of no frames if the first samples have no latents
            for stream in self._streams:
                for number in range(min(_PATTERN_ATTEMPTS, int(stream.locator.offsets[-1]))):
                    with contextlib.suppress(SampleError):
                        row = stream.rows(np.array([number]), [number], patient=False)[0]
                        sample = self.sample(changed(row), epoch)
                        self._processing.check(sample)
                        return sample
        return {"__key__": "", "metadata": {}} if self._processing.has_metadata else {"__key__": ""}


def _unchanged(row: BatchRow) -> BatchRow:
    return row
