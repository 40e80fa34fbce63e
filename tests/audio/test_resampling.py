"""A segment is resampled from its window to its exact length, whatever the blocks are."""

import numpy as np
import pytest

from headrace.audio.resampling import dtype_for, resampled
from headrace.audio.segments import SourceWindow
from tests.support.sounds import music

SOUND = music(4000, 2).astype(np.float32)


def whole(blocks, window=None, num_frames=8000, bits=16):
    window = window or SourceWindow(0, 4000, 0)
    return np.concatenate(list(resampled(blocks, window, num_frames, (8000, 16_000), bits)))


def test_a_segment_has_its_length_and_the_sound_of_its_window():
    found = whole([SOUND])
    assert found.shape == (8000, 2)
    assert np.abs(found[1000:7000:2] - SOUND[500:3500]).max() < 0.05


@pytest.mark.parametrize("size", [1000, 1777])
def test_blocks_of_any_size_give_the_same_values(size):
    blocks = [SOUND[at : at + size] for at in range(0, 4000, size)]
    assert np.array_equal(whole(blocks), whole([SOUND]))


def test_frames_before_the_segment_are_dropped():
    assert np.array_equal(whole([SOUND], SourceWindow(0, 4000, 300), 5000), whole([SOUND])[300:5300])


def test_the_window_behind_the_recording_is_silence():
    padded = np.concatenate([SOUND, np.zeros((1000, 2), np.float32)])
    window = SourceWindow(0, 5000, 0)
    assert np.array_equal(whole([SOUND], window, 10_000), whole([padded], window, 10_000))


def test_24_bits_are_resampled_in_doubles():
    assert (dtype_for(16), dtype_for(24)) == ("float32", "float64")
    assert whole([SOUND], bits=24).dtype == np.float64
