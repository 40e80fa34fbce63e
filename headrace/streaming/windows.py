"""Cuts samples into windows: how many a sample has, and which frames each of them holds.

This is arithmetic on lengths and rates. `shards.window_shards` asks the indexes for these, and the order counts windows
as it counts samples.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headrace.format.typed_json import typed

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LastWindow(StrEnum):
    """Treatment of the frames at the end of a sample that do not fill a window."""

    PAD = "pad"
    """They are a window of their own, which is shorter, and padded with zeros in a batch."""
    DROP = "drop"
    """They are left out; so are samples that are shorter than a window."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows that samples are cut into.

    Attributes:
        seconds: length of a window.
        hop_seconds: from the beginning of a window to that of the next one.
        last: what becomes of the end of a sample.
    """

    seconds: float
    hop_seconds: float
    last: LastWindow

    def frames(self, rates_hz: Floats) -> tuple[Ints, Ints]:
        """Length of a window and its hop in frames, int64 (n,) both, at rates (n,); at least one frame.

        >>> Windows(0.5, 0.25, LastWindow.PAD).frames(np.array([44100.0]))
        (array([22050]), array([11025]))
        """
        length, hop = (np.rint(seconds * rates_hz).astype(np.int64) for seconds in (self.seconds, self.hop_seconds))
        return np.maximum(1, length), np.maximum(1, hop)

    def counts(self, num_frames: Ints, rates_hz: Floats) -> Ints:
        """Number of windows of each sample, int64 (n,).

        With `LastWindow.PAD` a sample has every window that holds a frame which no window before it holds, and at least
        one. With `LastWindow.DROP` it has every window that it fills.

        >>> rate = np.array([1.0])
        >>> [int(Windows(4, 2, last).counts(np.array([n]), rate)[0]) for last in LastWindow for n in (0, 4, 5, 6, 7)]
        [1, 1, 2, 2, 3, 0, 1, 1, 2, 2]
        """
        length, hop = self.frames(rates_hz)
        if self.last is LastWindow.DROP:
            return np.asarray(np.maximum(0, 1 + (num_frames - length) // hop))
        return np.asarray(1 + np.maximum(0, -((np.maximum(length, hop) - num_frames) // hop)))

    def to_json(self) -> dict[str, Any]:
        """JSON object; `from_json` is its inverse."""
        return asdict(self) | {"last": self.last.value}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The windows that `to_json` wrote. Raises `ValueError` when a field is missing, unknown or invalid."""
        return typed(cls, fields)

    @property
    def arguments(self) -> str:
        """The arguments that give these windows, for messages."""
        return (
            f"window_seconds={self.seconds:g}, window_hop_seconds={self.hop_seconds:g}, last_window={self.last.value!r}"
        )
