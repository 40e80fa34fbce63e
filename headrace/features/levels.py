"""`kind: levels`: peaks, loudness, clipping, silence and offset."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.audio import Levels, levels
from headrace.encoders import settings as forms
from headrace.features.protocol import Audio

CODE_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Settings:
    """`levels` has no settings."""


class LevelsFeature:
    """The levels of the stored audio; a `Feature`."""

    columns: ClassVar[Mapping[str, str]] = {field.name: "float" for field in dataclasses.fields(Levels)}
    sample_rate_hz, num_channels, is_concurrent = None, None, True

    def measure(self, audio: Audio, sample_rate_hz: int) -> Mapping[str, float | None]:
        """See `Feature`."""
        return dataclasses.asdict(levels(audio, sample_rate_hz))


def check(settings: Mapping[str, object]) -> None:
    """See `headrace.features.check`."""
    forms.parse("levels", settings, _Settings, what="feature")


def fingerprint(settings: Mapping[str, object]) -> str:  # noqa: ARG001 - there are none
    """See `headrace.features.fingerprint`."""
    return str(CODE_VERSION)


def load(settings: Mapping[str, object]) -> LevelsFeature:  # noqa: ARG001
    """See `headrace.features.load`."""
    return LevelsFeature()
