"""Sample values become 16 or 24 bits by fixed rules of rounding, and several channels become their mean."""

import numpy as np
import pytest

from headrace.audio.levels import first_non_finite, to_mono, to_pcm


def column(*values, dtype):
    return np.array(values, dtype)[:, None]


def test_int16_stays_as_it_is():
    block = column(1, -2, dtype=np.int16)
    assert to_pcm(block, 24) is block


def test_wider_integers_are_rounded_half_up_and_clipped():
    block = column(0x7FFF, 0x8000, -0x8000, -0x8001, 2**31 - 1, dtype=np.int32)
    assert to_pcm(block, 16).ravel().tolist() == [0, 1, 0, -1, 32767]
    assert to_pcm(block, 16).dtype == np.int16
    assert to_pcm(block, 24).ravel().tolist() == [0x8000, 0x8000, -0x8000, -0x8000, (2**23 - 1) << 8]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_rounded_half_to_even_and_clipped(dtype):
    block = column(0.5 / 2**15, 1.5 / 2**15, 1.0, -1.0, -2.0, dtype=dtype)
    assert to_pcm(block, 16).ravel().tolist() == [0, 2, 32767, -32768, -32768]
    assert to_pcm(column(1.0, -1.0, dtype=dtype), 24).ravel().tolist() == [(2**23 - 1) << 8, -(2**31)]


def test_the_mean_of_channels_adds_them_in_order():
    block = np.array([[1e16, 1.0, -1e16], [3.0, 6.0, 9.0]])
    assert to_mono(block).tolist() == [[((1e16 + 1.0) - 1e16) / 3], [6.0]]


def test_the_first_frame_with_a_nan_or_an_infinity_is_found_in_any_channel():
    block = np.zeros((5, 2))
    assert first_non_finite(block) is None
    block[4, 0] = np.nan
    block[3, 1] = -np.inf
    assert first_non_finite(block) == 3
