"""Latents of windows are joined to those of a clip."""

import torch

from headrace.encoding.assembly import Assembly
from headrace.encoding.batches import ClipPiece
from headrace.encoding.plans import NoLatents
from headrace.encoding.windows import plan_windows
from tests.support.rejections import Broken30


def test_why_a_long_recording_is_rejected_does_not_depend_on_the_order_of_its_windows(tmp_path):
    encoder = Broken30({})
    windows = plan_windows(20_000, encoder)
    flaws = [NoLatents.overflow("float16"), NoLatents.not_finite()]
    for order in (flaws, flaws[::-1]):
        assembly = Assembly((windows,), (20_000,))
        found = None
        for number, window in enumerate(windows):
            hidden = order[number] if number < 2 else torch.zeros(41, 8)
            found = assembly.add(ClipPiece(0, number, window), hidden, encoder)
            assert (found is None) == (number + 1 < len(windows))
        assert found == NoLatents.not_finite()
