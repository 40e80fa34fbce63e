"""Settings of `kind: fbank`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.encoders import settings as forms
from headrace.errors import ConfigError

_MOST_HOP_SECONDS = 10.0  # a window has to contain a few hops


@dataclass(frozen=True, slots=True)
class FbankSettings:
    """Settings of `kind: fbank`.

    Attributes:
        sample_rate_hz: sample rate of the encoder's input.
        hop_seconds: time from one frame to the next, in whole PCM frames, rounded down.
        frame_seconds: length of the Povey window, in whole PCM frames, rounded down.
        num_mels: number of mel bands, which is D.
        min_hz: lower edge of the lowest band.
        max_hz: upper edge of the highest band; None for half the sample rate.
        snip_edges: whether only frames that fit the recording are made; otherwise T is N / hop rounded, and the
            recording is mirrored at its ends.
        scale: range of the samples: `int16` as in Kaldi, WeNet and ESPnet; `unit` (-1 to 1) as in Lhotse and icefall.
    """

    sample_rate_hz: int = 16_000
    hop_seconds: float = 0.01
    frame_seconds: float = 0.025
    num_mels: int = 80
    min_hz: float = 20.0
    max_hz: float | None = None
    snip_edges: bool = True
    scale: Literal["int16", "unit"] = "int16"

    @property
    def band_stop_hz(self) -> float:
        """Upper edge of the highest band."""
        return self.sample_rate_hz / 2 if self.max_hz is None else self.max_hz

    @property
    def hop(self) -> int:
        """PCM frames from one frame to the next."""
        return int(self.sample_rate_hz * self.hop_seconds)

    @property
    def frame_size(self) -> int:
        """PCM frames of a frame."""
        return int(self.sample_rate_hz * self.frame_seconds)


def parsed_settings(settings: Mapping[str, object]) -> FbankSettings:
    """The settings of a YAML entry.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    parsed = forms.parse("fbank", settings, FbankSettings)
    if parsed.sample_rate_hz < 1 or parsed.num_mels < 1:
        raise ConfigError("encoder fbank: sample_rate_hz and num_mels must be at least 1")
    if parsed.hop < 1 or parsed.hop_seconds > _MOST_HOP_SECONDS or parsed.frame_size < max(2, parsed.hop):
        raise ConfigError(
            f"encoder fbank: hop_seconds must be from one PCM frame to {_MOST_HOP_SECONDS:g}, and at most "
            f"frame_seconds; found {parsed.hop_seconds:g} and {parsed.frame_seconds:g}"
        )
    low, high = parsed.min_hz, parsed.band_stop_hz
    if not 0 <= low < high <= parsed.sample_rate_hz / 2:
        raise ConfigError(
            f"encoder fbank: need 0 <= min_hz < max_hz <= {parsed.sample_rate_hz / 2:g}, found {low:g}, {high:g}"
        )
    return parsed
