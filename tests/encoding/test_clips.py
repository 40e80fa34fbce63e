"""Tests of `headrace.encoding.clips`."""

from pathlib import Path

import numpy as np
import soundfile

from tests.support.audio_shards import noise


def test_windows_of_a_resampled_recording_equal_the_whole_recording(tmp_path: Path) -> None:
    """Reading by seeking gives the same samples as reading from the start, resampled and without seams."""
    from headrace.encoding.clips import AudioClip, AudioForm, read_clip

    path = tmp_path / "long.flac"
    soundfile.write(path, noise(44_100 * 7 + 11, 0), 44_100)
    clip = AudioClip("shard", path, "long", (0, path.stat().st_size), 44_100 * 7 + 11, 44_100, 1)
    form = AudioForm(16_000, 1)
    total = clip.num_frames_at(16_000)
    whole = read_clip(clip, form, 0, total)
    assert whole.shape == (1, total)
    for start, stop in ((0, 100), (16_000, 48_000), (33_333, 90_001), (total - 5000, total), (total - 1, total)):
        part = read_clip(clip, form, start, stop)
        assert part.shape == (1, stop - start)
        assert np.abs(part - whole[:, start:stop]).max() < 1 / 32768
