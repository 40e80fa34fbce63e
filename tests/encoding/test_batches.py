"""Tests of `headrace.encoding.batches`."""

from headrace.encoding.batches import plan_batches
from headrace.encoding.windows import ClipWindow


def test_a_batch_in_halves_still_counts_its_padding() -> None:
    """Else a worker would put too many rows together after memory ran out."""
    (batch,) = plan_batches([(ClipWindow(0, 10),)] * 4, 400, padded_to=100)
    assert batch.num_computed_frames == 400
    assert [half.num_computed_frames for half in batch.halves()] == [200, 200]
