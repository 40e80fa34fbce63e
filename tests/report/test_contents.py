"""Contents of a report: clipped samples are counted."""

import numpy as np

from headrace.report.contents import is_clipped


def test_a_wave_that_just_reaches_full_scale_does_not_count_as_clipped():
    wave = np.zeros((2, 9), np.float32)
    wave[1, 3:5] = 1.0
    assert not is_clipped(wave)
    wave[1, 5] = 1.0
    assert is_clipped(wave)
    assert is_clipped(-wave)
    assert not is_clipped(np.zeros((1, 0), np.float32))
    assert not is_clipped(np.ones((1, 1), np.float32))
