"""Tests of `headrace.encoding.batches`."""

from headrace.encoding.batches import plan_batches
from headrace.encoding.windows import ClipWindow


def test_a_batch_in_halves_still_counts_its_padding() -> None:
    """Else a worker would put too many rows together after memory ran out."""
    (batch,) = plan_batches([(ClipWindow(0, 10),)] * 4, 400, padded_to=100)
    assert batch.num_computed_frames == 400
    assert [half.num_computed_frames for half in batch.halves()] == [200, 200]


def test_rows_of_a_batch_have_one_rounded_length_where_the_encoder_computes_one_at_a_time() -> None:
    """Then each batch is one forward pass."""
    lengths = [40, 39, 31, 30, 30, 21, 10]
    batches = plan_batches([(ClipWindow(0, length),) for length in lengths], 10_000, length_step=10)
    assert [[piece.window.num_frames for piece in batch.pieces] for batch in batches] == [
        [40, 39, 31],
        [30, 30, 21],
        [10],
    ]


def test_rounded_batches_have_few_shapes_and_stay_within_the_budget_and_the_window() -> None:
    """Lengths of 1 to 2 s at 16 kHz give at most 33 lengths."""
    windows = [(ClipWindow(0, length),) for length in range(16_000, 30_003, 7)]
    batches = plan_batches(windows, 100_000, rounded_within=30_003)
    assert len({batch.num_frames for batch in batches}) <= 33
    assert all(batch.num_computed_frames <= 100_000 for batch in batches)
    assert all(batch.num_frames >= piece.window.num_frames for batch in batches for piece in batch.pieces)
    assert max(batch.num_frames for batch in batches) == 30_003
