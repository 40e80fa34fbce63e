"""`kind: log_mel`: the logarithm of a mel spectrogram, the encoder without weights.

Owns its settings and fingerprint; the transform is in `log_mel_transform`, which needs torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.encoders import settings as forms
from headrace.encoders.protocol import Encoder

CODE_VERSION = 1


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


def fingerprint(settings: Mapping[str, object]) -> str:
    """See `headrace.encoders.fingerprint`."""
    return forms.fingerprint("log_mel", CODE_VERSION, forms.parse("log_mel", settings, Settings))


def load(settings: Mapping[str, object], device: str) -> Encoder:
    """See `headrace.encoders.load`."""
    from headrace.encoders.log_mel_transform import LogMel  # noqa: PLC0415 - needs torch

    return LogMel(forms.parse("log_mel", settings, Settings), fingerprint(settings), device)
