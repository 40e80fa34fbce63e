"""Hours of a bill."""

from types import SimpleNamespace

import numpy as np

from headrace.streaming.asked.answers import _seconds


def test_seconds_are_by_the_rate_of_the_audio_or_else_of_the_latents_and_unknown_without_length_or_rate():
    frames = np.array([8000, -1, 5, 0, 7, 4])
    audio = np.array([8000, 8000, 0, 50, 0, 1])
    latents = np.array([50.0, 50.0, 0.5, 0.0, 0.0, 8.0])
    reader = SimpleNamespace(lengths=frames.__getitem__, rates=lambda samples: (audio[samples], latents[samples]))
    expected = [1.0, np.nan, 10.0, 0.0, np.nan, 4.0]
    np.testing.assert_array_equal(_seconds(reader, np.arange(6)), expected)
    np.testing.assert_array_equal(_seconds(reader, np.array([5, 0])), [4.0, 1.0])
