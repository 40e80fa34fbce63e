"""Settings of `kind: log_mel`."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.encoders import settings as forms
from headrace.errors import ConfigError

_LEAST = {"sample_rate_hz": 1, "window_size": 2, "num_mels": 1, "floor": 1e-30}
_MOST_HOP_SECONDS = 10.0  # a window has to contain a few hops


@dataclass(frozen=True, slots=True)
class LogMelSettings:
    """Settings of `kind: log_mel`.

    Attributes:
        sample_rate_hz: sample rate of the encoder's input.
        hop_seconds: time from one latent frame to the next, rounded to PCM frames.
        window_size: size of the Hann window and of the FFT, in PCM frames.
        num_mels: number of mel bands, which is D.
        min_hz: lower edge of the lowest band.
        max_hz: upper edge of the highest band; None for half the sample rate.
        floor: added to the energies before the natural logarithm is taken.
    """

    sample_rate_hz: int = 16_000
    hop_seconds: float = 0.01
    window_size: int = 1024
    num_mels: int = 80
    min_hz: float = 0.0
    max_hz: float | None = None
    floor: float = 1e-6

    @property
    def band_stop_hz(self) -> float:
        """Upper edge of the highest band."""
        return self.sample_rate_hz / 2 if self.max_hz is None else self.max_hz


def parsed_settings(settings: Mapping[str, object]) -> LogMelSettings:
    """The settings of a YAML entry.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    parsed = forms.parse("log_mel", settings, LogMelSettings)
    for name, least in _LEAST.items():
        if getattr(parsed, name) < least:
            raise ConfigError(f"encoder log_mel: {name} must be at least {least:g}, found {getattr(parsed, name):g}")
    if parsed.num_mels > (num_bins := parsed.window_size // 2 + 1):
        raise ConfigError(
            f"encoder log_mel: num_mels must be at most {num_bins}, the frequencies of a window_size of "
            f"{parsed.window_size}, found {parsed.num_mels}"
        )
    if not 1 / parsed.sample_rate_hz <= parsed.hop_seconds <= _MOST_HOP_SECONDS:
        raise ConfigError(
            f"encoder log_mel: hop_seconds must be from one PCM frame to {_MOST_HOP_SECONDS:g}, "
            f"found {parsed.hop_seconds:g}"
        )
    low, high = parsed.min_hz, parsed.band_stop_hz
    if not 0 <= low < high <= parsed.sample_rate_hz / 2:
        raise ConfigError(
            f"encoder log_mel: need 0 <= min_hz < max_hz <= {parsed.sample_rate_hz / 2:g}, found {low:g}, {high:g}"
        )
    return parsed
