"""Shared by test_mixing and the tests beside it."""

import numpy as np


def check_taken(layout):
    """Check that the samples taken before each batch are those of the rows before it, in every slot of every stream."""
    starts = [layout.batch_start(batch) for batch in range(layout.num_batches + 1)]
    found, positions = layout.locate(np.arange(starts[-1]))
    for start in starts:
        taken = layout.taken(start)
        for number, of_slots in enumerate(taken):
            held = positions[:start][(found[:start] == number) & (positions[:start] >= 0)]
            assert np.bincount(held % len(of_slots), minlength=len(of_slots)).tolist() == of_slots.tolist()
