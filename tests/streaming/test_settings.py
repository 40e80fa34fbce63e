"""Tests of `headrace.streaming.settings`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streaming.samples.crop import Crop, frames_kept
from headrace.streaming.settings import SampleSettings


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, [5, 12, 100]),
        ({"crop_frames": 10}, [5, 10, 10]),
        ({"crop_seconds": 0.00125}, [5, 10, 10]),
        ({"crop_seconds": 1e-9}, [1, 1, 1]),
    ],
)
def test_a_crop_keeps_its_length_or_what_is_there(settings, kept):
    assert frames_kept(SampleSettings(**settings), np.array([5, 12, 100]), np.full(3, 8000.0)).tolist() == kept


def test_a_crop_begins_anywhere_it_fits():
    crop = Crop(SampleSettings(crop_frames=10), seed=1)
    starts, kept = crop.windows(0, np.full(100, 12), np.full(100, 8000.0), np.arange(100))
    assert set(starts.tolist()) == {0, 1, 2}
    assert set(kept.tolist()) == {10}


def test_without_a_crop_every_frame_is_kept():
    starts, kept = Crop(SampleSettings(), seed=1).windows(0, np.array([3, 7]), np.full(2, 8000.0), np.arange(2))
    assert (starts.tolist(), kept.tolist()) == ([0, 0], [3, 7])


@pytest.mark.medium
@given(num_frames=st.integers(1000, 10**6), position=st.integers(0, 10**9), epoch=st.integers(0, 1000))
def test_where_a_crop_begins_depends_on_seed_epoch_and_place_alone(num_frames, position, epoch):
    def first(seed, epoch, position):
        crop = Crop(SampleSettings(crop_frames=10), seed)
        facts = np.array([num_frames]), np.array([8000.0]), np.array([position])
        starts, kept = crop.windows(epoch, *facts)
        assert kept.tolist() == [10]
        assert 0 <= starts[0] <= num_frames - 10
        return starts[0]

    assert first(1, epoch, position) == first(1, epoch, position)
    for others in (
        [(seed, epoch, position) for seed in range(2, 9)],
        [(1, epoch + later, position) for later in range(1, 9)],
        [(1, epoch, position + later) for later in range(1, 9)],
    ):
        assert {first(*other) for other in others} != {first(1, epoch, position)}
