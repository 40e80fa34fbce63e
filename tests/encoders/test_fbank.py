"""Kaldi's filter banks, compared with kaldi-native-fbank."""

import kaldi_native_fbank
import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.errors import ConfigError
from tests.support.audio_shards import noise


def _kaldi(samples, scale=32768.0, **changes):
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = changes.pop("num_bins", 80)
    options.mel_opts.high_freq = changes.pop("high_freq", 0.0)
    for name, value in changes.items():
        setattr(options.frame_opts, name, value)
    online = kaldi_native_fbank.OnlineFbank(options)
    online.accept_waveform(options.frame_opts.samp_freq, (samples * scale).tolist())
    online.input_finished()
    return np.stack([online.get_frame(i) for i in range(online.num_frames_ready)])


CASES = {
    "Kaldi's defaults": ({}, {}),
    "mirrored ends": ({"snip_edges": False}, {"snip_edges": False}),
    "8 kHz": ({"sample_rate_hz": 8000, "num_mels": 40}, {"samp_freq": 8000, "num_bins": 40}),
    "icefall's": (
        {"scale": "unit", "snip_edges": False, "max_hz": 7600},
        {"scale": 1.0, "snip_edges": False, "high_freq": -400.0},
    ),
    "other frames": ({"frame_seconds": 0.032, "hop_seconds": 0.016}, {"frame_length_ms": 32, "frame_shift_ms": 16}),
}


@pytest.mark.parametrize(("settings", "options"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("length", [640, 1234, 16_001])
def test_frames_are_those_of_kaldi(settings, options, length):
    """Also of a recording with a constant offset."""
    samples = (0.4 * noise(length, 3) + 0.1).astype(np.float32)
    encoder = encoders.load("fbank", settings)
    expected = _kaldi(samples, **options)
    found, lengths = encoder.encode(torch.from_numpy(samples)[None, None], torch.tensor([length]))
    assert found.shape[1] == int(lengths[0]) == len(expected)
    assert np.abs(found[0].numpy() - expected).max() < 2e-3
    assert np.abs(found[0].numpy() - expected).mean() < 1e-5


WRONG = {
    "a hop": ({"hop_seconds": 0.03}, "hop_seconds must be .* at most frame_seconds; found 0.03 and 0.025"),
    "a band": ({"max_hz": 9000}, "need 0 <= min_hz < max_hz <= 8000, found 20, 9000"),
    "no bands": ({"num_mels": 0}, "num_mels must be at least 1"),
    "a scale": ({"scale": "db"}, "scale"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        encoders.load("fbank", settings)
