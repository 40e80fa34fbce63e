"""The mel transform compared with its formula, and invalid settings."""

import pytest
import torch

from headrace import encoders
from headrace.encoders.log_mel_settings import LogMelSettings
from headrace.encoders.log_mel_transform import mel_filters
from headrace.errors import ConfigError
from tests.support.audio_shards import tone


def test_a_tone_is_loudest_in_the_band_of_its_frequency() -> None:
    encoder = encoders.load("log_mel", {})
    hidden, lengths = encoder.encode(torch.from_numpy(tone(0.5, 1000.0))[None, None], torch.tensor([8000]))
    assert lengths.tolist() == [51]
    loudest = int(hidden[0, 10:-10].mean(0).argmax())
    assert int(mel_filters(LogMelSettings())[64].argmax()) == loudest  # bin 64 of 512 is 1000 Hz at a rate of 8000 Hz


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_mels": 0}, "num_mels must be at least 1"),
        ({"num_mels": 34, "window_size": 64}, "num_mels must be at most 33.*found 34"),
        ({"window_size": 1}, "window_size must be at least 2"),
        ({"sample_rate_hz": 0}, "sample_rate_hz must be at least 1"),
        ({"floor": 0.0}, "floor must be at least"),
        ({"hop_seconds": 0.0}, "hop_seconds must be from one PCM frame"),
        ({"hop_seconds": float("inf")}, "hop_seconds: expected a finite number"),
        ({"min_hz": 4000.0, "max_hz": 100.0}, "need 0 <= min_hz < max_hz <= 8000"),
        ({"max_hz": 9000.0}, "need 0 <= min_hz < max_hz <= 8000"),
        ({"max_hz": None, "min_hz": 8000.0}, "found 8000, 8000"),
    ],
)
def test_invalid_settings_are_an_error_before_torch_is_imported(settings: dict[str, object], message: str) -> None:
    """The fingerprint, which `build.py` computes before it builds anything, raises the error."""
    with pytest.raises(ConfigError, match=message):
        encoders.fingerprint("log_mel", settings)
