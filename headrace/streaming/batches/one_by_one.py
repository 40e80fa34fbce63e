"""Batches of samples that are made one by one: with a transform, resampled, or of lengths that no index knows."""

from collections.abc import Callable, Mapping, Sequence

from headrace.errors import SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.batch import Batch, Sample, padding_like, stack
from headrace.streaming.batches.decode import read_sample
from headrace.streaming.batches.recipe import Recipe
from headrace.streaming.batches.rows import Row


class OneByOne:
    """Makes the samples of a batch (`prepared.RowFiller`)."""

    def __init__(
        self,
        rows: Sequence[Row | None],
        recipe: Recipe,
        epoch: int,
        allocator: Allocator,
        pattern: Callable[[], Sample],
    ) -> None:
        """Nothing is read yet.

        Args:
            rows: None for padding.
            recipe: what is made of each.
            epoch: which crops and transforms may depend on.
            allocator: where the batch's arrays come from.
            pattern: what padding looks like in a batch that holds nothing else.
        """
        self._rows = rows
        self._recipe = recipe
        self._epoch = epoch
        self._allocator = allocator
        self._pattern = pattern
        self._samples: list[Sample | None] = [None] * len(rows)

    def fill(self, place: int) -> None:
        """See `RowFiller`."""
        if (row := self._rows[place]) is not None:
            sample = whole_sample(row, self._recipe, self._epoch)
            self._recipe.check(sample)
            self._samples[place] = sample

    def finish(self, dropped: Mapping[int, SampleError]) -> Batch:  # noqa: ARG002 - they have no sample
        """See `RowFiller`; padding has the shapes of the first sample that is there."""
        pattern = next((sample for sample in self._samples if sample is not None), None) or self._pattern()
        samples = [padding_like(pattern) if sample is None else sample for sample in self._samples]
        return stack(samples, self._allocator, self._called)

    def _called(self, place: int) -> str:
        row = self._rows[place]
        return "padding" if row is None else row.primary.called


def whole_sample(row: Row, recipe: Recipe, epoch: int) -> Sample:
    """A row's sample, cropped and transformed. Raises as `read_sample`, and what the transform raises."""
    sample = read_sample(row, recipe.suffixes, recipe.crop.of(row, epoch), recipe.config)
    return recipe.transformed(sample, epoch, row.position)
