"""Pictures of partitions are small PNG files in Markdown that show what they are drawn from."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from headrace_dagster.assets.partition_pictures import (
    AudioToDraw,
    histogram,
    latents_below_spectrogram,
    vectors,
    waveforms,
)

BLUE, WHITE = (0x2F, 0x6F, 0x8F), (255, 255, 255)


def pixels(markdown):
    (data,) = re.fullmatch(r"!\[[a-z ]+\]\(data:image/png;base64,(.*)\)", markdown).groups()
    assert len(data) < 40_000
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))


def blue(markdown):
    return int((pixels(markdown) == BLUE).all(axis=2).sum())


def clip(samples, key="a"):
    return AudioToDraw(key, np.asarray(samples, np.float32), 8000)


SINE = np.sin(np.arange(8000) / 5)


def test_a_loud_clip_has_a_larger_envelope_than_a_quiet_one():
    loud, quiet, silent = (blue(waveforms([clip(scale * SINE)])) for scale in (1, 0.2, 0))
    assert loud > 3 * quiet > 3 * silent > 0


def test_each_clip_has_a_row_of_its_own():
    assert pixels(waveforms([clip(SINE)] * 3)).shape[0] == 3 * pixels(waveforms([clip(SINE)])).shape[0]


@pytest.mark.parametrize("seconds", [[], [0.0], [1.0], [1.0] * 5 + [2.0], [0.001, 3600.0]])
def test_any_durations_have_a_histogram(seconds):
    assert (blue(histogram(seconds)) > 0) == bool(seconds)


def test_the_most_frequent_durations_have_the_highest_bar():
    drawn = (pixels(histogram([1.0] * 9 + [10.0])) == BLUE).all(axis=2).sum(axis=0)
    left, right = drawn[:150].max(), drawn[180:].max()
    assert left > 5 * right > 0


def test_latents_are_drawn_over_the_seconds_of_their_audio():
    hidden = np.zeros((10, 4))
    hidden[5:] = 1
    whole = pixels(latents_below_spectrogram(clip(SINE), hidden, 10.0))
    half = pixels(latents_below_spectrogram(clip(SINE), hidden[:5], 10.0))
    assert whole.shape == half.shape
    below = slice(whole.shape[0] // 2 + 20, -20)
    right = slice(200, 270)
    assert not (whole[below, right] == WHITE).all(axis=2).any()
    assert (half[below, right] == WHITE).all()


def test_one_sample_is_drawn_over_the_whole_width():
    assert blue(waveforms([clip([0.5])])) > 200


def test_vectors_are_drawn_one_below_the_other():
    rows = np.array([[0.0, 1, 2, 3]] * 3 + [[5.0, 5, 5, 5]])
    drawn = pixels(vectors(rows))[20:-20, 150].astype(int).sum(axis=1)
    assert drawn[0] < drawn[-1]  # the last sample is the lowest
    assert len({int(value) for value in drawn}) == 2
    assert len(np.unique(pixels(vectors(rows[:1]))[60, 50:270].sum(axis=1))) >= 4  # of one, its own values
