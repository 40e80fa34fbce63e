"""`kind: log_mel`: the logarithm of a mel spectrogram, the encoder without weights.

Owns its settings and fingerprint; the transform is in `log_mel_transform`, which needs torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.encoders import settings as forms
from headrace.encoders.protocol import Encoder
from headrace.errors import ConfigError

CODE_VERSION = 1
_LEAST = {"sample_rate_hz": 1, "window_size": 2, "num_mels": 1, "floor": 1e-30}
_MOST_HOP_SECONDS = 10.0  # a window holds a few


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of `kind: log_mel`.

    Attributes:
        sample_rate_hz: of the audio that it takes.
        hop_seconds: step between frames, rounded to PCM frames.
        window_size: PCM frames of one Hann window, also the FFT's size.
        num_mels: D.
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


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`."""
    return forms.fingerprint("log_mel", CODE_VERSION, _parsed(settings))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace.encoders.log_mel_transform import LogMel  # noqa: PLC0415 - needs torch

    return LogMel(_parsed(settings), fingerprint(settings), device)


def _parsed(settings: Mapping[str, object]) -> Settings:
    parsed = forms.parse("log_mel", settings, Settings)
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
