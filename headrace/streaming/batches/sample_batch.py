"""Makes batches sample by sample, then stacks them: for transforms, resampling, and lengths that no index has.

`SampleBatch` is the slowest way to make a batch and works for every sample.
"""

from collections.abc import Callable, Sequence

from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch, Sample, add_valid_frames
from headrace.streaming.batches.decode import read_sample
from headrace.streaming.batches.open_batch import RowErrors
from headrace.streaming.batches.processing import SampleProcessing
from headrace.streaming.batches.stacking import BatchLayout, padding_like, stack
from headrace.streaming.samples.stored_sample import BatchRow


class SampleBatch:
    """A batch that is made sample by sample (`OpenBatch`)."""

    is_filled_whole = False

    def __init__(
        self,
        rows: Sequence[BatchRow | None],
        processing: SampleProcessing,
        epoch: int,
        allocator: Allocator,
        pattern: Callable[[], Sample],
    ) -> None:
        """Read nothing yet.

        Args:
            rows: rows of the batch; None for padding.
            processing: crop and transform.
            epoch: number of the epoch, on which random crops and transforms depend.
            allocator: allocates the batch's arrays.
            pattern: gives a sample with the fields and shapes of padding rows, for a batch of padding only.
        """
        self._rows = rows
        self._processing = processing
        self._epoch = epoch
        self._allocator = allocator
        self._pattern = pattern
        self._errors = RowErrors(rows, processing.config.on_bad_sample)
        self._samples: list[Sample | None] = [None] * len(rows)

    def __len__(self) -> int:
        """See `OpenBatch`."""
        return len(self._rows)

    def fill(self, start: int, stop: int) -> None:
        """See `OpenBatch`."""
        self._errors.fill(range(start, stop), self._fill_row)

    def finish(self) -> Batch:
        """See `OpenBatch`; padding has the shapes of the batch's first sample."""
        pattern = next((sample for sample in self._samples if sample is not None), None) or self._pattern()
        samples = [padding_like(pattern) if sample is None else sample for sample in self._samples]
        config, layout = self._processing.config, BatchLayout(self._least_frames(), self._processing.rasters)
        batch = stack(samples, self._allocator, self._name_of, config.pad, layout)
        if config.valid_frames:
            add_valid_frames(batch, self._allocator)
        batch.errors = self._errors.messages
        return batch

    def _least_frames(self) -> int:
        """Frames of a whole window, so that the batch has room for one; 0 without windows, or after a transform."""
        config = self._processing.config
        if config.transform is not None:
            return 0
        windowed = [row for row in self._rows if row is not None and row.window is not None and row.primary.audio()]
        return max((_window_frames(row, config.sample_rate_hz) for row in windowed), default=0)

    def _fill_row(self, place: int) -> None:
        if (row := self._rows[place]) is not None:
            sample = whole_sample(row, self._processing, self._epoch)
            self._processing.check(sample)
            self._samples[place] = sample

    def _name_of(self, place: int) -> str:
        row = self._rows[place]
        return "padding" if row is None else row.primary.called


def _window_frames(row: BatchRow, wanted_hz: int | None) -> int:
    """Frames of a whole window of a row after resampling by soxr."""
    assert row.window is not None
    length, rate_hz = row.window.length, row.primary.sample_rate_hz
    return length if wanted_hz is None else (2 * length * wanted_hz + rate_hz) // (2 * rate_hz)


def whole_sample(row: BatchRow, processing: SampleProcessing, epoch: int) -> Sample:
    """A row's sample, cropped and transformed. Raises as `read_sample`, and what the transform raises."""
    sample = read_sample(row, processing.outputs, processing.crop.of(row, epoch), processing.config)
    if not processing.has_metadata:
        del sample["metadata"]
    return processing.transformed(sample, epoch, row.position)
