"""Decides what a batch gets in place of a sample whose latents were rejected when they were made.

The setting `on_missing_latents` says which: an error, a padding row, or latents of length 0. The order of samples does
not depend on it, so batches stay equal on every rank.
"""

from dataclasses import replace

from headrace.errors import SampleError
from headrace.format.tensors.tensors import TensorPlace
from headrace.streaming.samples.stored_sample import BatchRow, StoredSample
from headrace.streaming.settings import OnMissingLatents

_NO_FRAMES = (0, 0, 0)  # start, stop and number of frames


def row_to_read(row: BatchRow, choice: OnMissingLatents) -> BatchRow | None:
    """The row that is read in place of `row`; None for a padding row.

    A row that has all of its latents stays as it is. With `OnMissingLatents.RAISE` every row does, and `check_latents`
    raises when the row is read; so does one with `OnMissingLatents.ZEROS` whose latents would be beside its audio, as
    in an export: their width is not known.
    """
    if choice is OnMissingLatents.RAISE or not any(map(_is_rejected, row.stored)):
        return row
    if choice is OnMissingLatents.SKIP:
        return None
    return row if row.primary.audio() and _is_rejected(row.primary) else with_empty_latents(row)


def with_empty_latents(row: BatchRow) -> BatchRow:
    """The row with latents of no frames, in the width and dtype of other samples, where latents were rejected."""
    joined = tuple(_emptied(sample) if sample is not None and _is_rejected(sample) else sample for sample in row.joined)
    primary = _emptied(row.primary) if _is_rejected(row.primary) and not row.primary.audio() else row.primary
    return replace(row, primary=primary, joined=joined)


def check_latents(row: BatchRow) -> None:
    """Raise `SampleError` if latents of a row were rejected, with the reason and what can be done."""
    for sample in row.stored:
        if sample is not None and _is_rejected(sample):
            zeros = "" if sample.audio() else ', or "zeros" for latents of length 0'
            raise SampleError(
                f"its latents in {sample.shard_name} were rejected when they were made: {sample.rejection}; pass "
                f'on_missing_latents="skip" for a row of padding in its place{zeros}'
            )


def _is_rejected(sample: StoredSample | None) -> bool:
    return sample is not None and bool(sample.rejection)


def _emptied(sample: StoredSample) -> StoredSample:
    width, dtype = sample.access.form_of_latents(sample.output)
    tensor = TensorPlace(*_NO_FRAMES, width)
    return replace(sample, num_frames=0, tensor=tensor, tensor_dtype=dtype, has_time_axis=False, rejection="")
