"""`Feature`: what computes the values of a sample from its audio."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

Audio = np.ndarray[tuple[int, int], np.dtype[np.float32]]
"""Audio (channels, frames), from -1 to 1."""


class Feature(Protocol):
    """Computes the values of a sample.

    Attributes:
        columns: name → type of each value: `float`, `int`, `bool`, `text`, `json` or `intervals`.
        sample_rate_hz: sample rate of the audio that it takes; None for that of the sample.
        num_channels: channels of the audio that it takes; None for those of the sample.
        is_concurrent: whether several threads may call it at once.
    """

    @property
    def columns(self) -> Mapping[str, str]: ...  # noqa: D102 - see the class

    @property
    def sample_rate_hz(self) -> int | None: ...  # noqa: D102

    @property
    def num_channels(self) -> int | None: ...  # noqa: D102

    @property
    def is_concurrent(self) -> bool: ...  # noqa: D102

    def measure(self, audio: Audio, sample_rate_hz: int) -> Mapping[str, Any]:
        """The values of a sample by column; None for a value that does not exist."""
