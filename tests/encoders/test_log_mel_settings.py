"""Settings of `kind: log_mel` that are rejected."""

import pytest

from headrace import encoders
from headrace.errors import ConfigError


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
