"""Batches that are decoded in place."""

import numpy as np

from tests.support.plausibility import only_batch
from tests.support.streaming.corpus import clips
from tests.support.tars import write_tar

SHORT, LONG = sorted(clips(2, frames=(2000, 4000)), key=lambda clip: clip.num_frames)


def test_a_skipped_row_does_not_make_a_batch_longer(tmp_path):
    """Whether it is filled in place, or of samples one by one."""
    damaged = bytearray(LONG.flac())
    damaged[len(damaged) // 2] ^= 0xFF
    write_tar(tmp_path / "x.tar", [("a.flac", SHORT.flac()), ("b.flac", bytes(damaged))])
    for how in ({}, {"transform": lambda sample: sample}):
        batch = only_batch(tmp_path, on_bad_sample="skip", **how)
        assert np.array_equal(batch["audio"][0].numpy(), SHORT.audio())
