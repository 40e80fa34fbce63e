"""Where a crop cuts: a sample, and the latents that are joined to it.

Owns both windows. Where a crop begins depends on the seed, the epoch and the sample's place in it, and on nothing else,
so that it is the same on every world, thread and worker. Audio with joined latents is cut where a latent frame begins,
and the latents are cut with it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.streaming.batches.rows import Part, Row
from headrace.streaming.order.bijection import mix
from headrace.streaming.settings import SampleConfig

_HALF = Fraction(1, 2)
_FINEST_RATE = 1_000_000  # denominator of a frame rate in Hz

Ints = NDArray[np.int64]
Window: TypeAlias = tuple[int, int]
"""First frame and number of frames of what is kept."""


@dataclass(frozen=True, slots=True)
class Crop:
    """What is kept of each sample, and where.

    Attributes:
        config: how much.
        seed: of the places.
    """

    config: SampleConfig
    seed: int

    def windows(
        self, epoch: int, num_frames: Ints, rates_hz: NDArray[np.float64], positions: Ints
    ) -> tuple[Ints, Ints]:
        """First frame and number of frames of many samples without joined latents, int64 (n,) both.

        Args:
            epoch: number of the epoch.
            num_frames: int64 (n,), stored frames.
            rates_hz: float64 (n,), frames a second; only a crop in seconds asks for them.
            positions: int64 (n,), the row of the epoch that each is.
        """
        if not self.config.crops:
            return np.zeros_like(num_frames), num_frames
        kept = frames_kept(self.config, num_frames, rates_hz)
        room = (num_frames - kept + 1).astype(np.uint64)
        return (mix(self.seed, epoch, positions) % room).astype(np.int64), kept

    def of(self, row: Row, epoch: int) -> "Cut":
        """What is kept of one sample."""
        return Cut(self, row, epoch)


class Cut:
    """What a crop keeps of one sample; the window of the sample itself has to be asked for first."""

    def __init__(self, crop: Crop, row: Row, epoch: int) -> None:
        self._crop = crop
        self.row = row
        self._epoch = epoch
        self._window: Window = (0, 0)
        self._is_whole = not crop.config.crops
        self._rate_hz = 0.0

    def primary(self, num_frames: int, rate_hz: float) -> Window:
        """The window of the sample's audio, or of its latents where it has no audio.

        Args:
            num_frames: stored frames.
            rate_hz: how many a second has; 0 if that is unknown.

        Raises:
            ConfigError: that is needed and unknown.
        """
        if not self._crop.config.crops:
            return 0, num_frames
        if not rate_hz and (self._crop.config.crop_seconds is not None or self.row.joined):
            raise _no_rate(self.row.primary)
        facts = (np.array([num_frames]), np.array([rate_hz]), np.array([self.row.position]))
        first, count = (int(found[0]) for found in self._crop.windows(self._epoch, *facts))
        self._rate_hz, self._is_whole = rate_hz, count == num_frames
        present = [part for part in self.row.joined if part is not None]
        if present and not self._is_whole:
            slowest = min(present, key=lambda part: part.latent_rate_hz)
            first = on_grid((first, count), self._pace(slowest), slowest.num_frames)
        self._window = first, count
        return self._window

    def joined(self, number: int, num_latents: int) -> Window:
        """The window of joined latents: those under that of the audio.

        Args:
            number: of the joined folder.
            num_latents: stored latent frames.

        Raises:
            ConfigError: how many a second has is unknown.
        """
        part = self.row.joined[number]
        if self._is_whole or part is None:
            return 0, num_latents
        return latents_under(self._window, self._pace(part), num_latents)

    def _pace(self, part: Part) -> Fraction:
        if not part.latent_rate_hz:
            raise _no_rate(part)
        rates = (Fraction(rate).limit_denominator(_FINEST_RATE) for rate in (part.latent_rate_hz, self._rate_hz))
        return next(rates) / next(rates)


def frames_kept(config: SampleConfig, num_frames: Ints, rates_hz: NDArray[np.float64]) -> Ints:
    """How many frames a crop keeps of samples of `num_frames` (n,), at `rates_hz` (n,), int64 (n,)."""
    if config.crop_seconds is not None:
        return np.minimum(np.maximum(1, np.rint(config.crop_seconds * rates_hz)).astype(np.int64), num_frames)
    return num_frames if config.crop_frames is None else np.minimum(config.crop_frames, num_frames)


def on_grid(window: Window, pace: Fraction, num_latents: int) -> int:
    """Where a window of audio begins when it is moved back to the beginning of a latent frame.

    Args:
        window: of the audio.
        pace: latent frames in one frame of audio.
        num_latents: of the whole audio; the window is moved so far back that those under it are there.

    Returns:
        The frame of audio at which (or at most half a frame from which) that latent frame begins.
    """
    first, count = window
    number = max(0, min(int(first * pace), num_latents - _spanned(count, pace)))
    return int(number / pace + _HALF)


def latents_under(window: Window, pace: Fraction, num_latents: int) -> Window:
    """The latent frames that belong to a window of audio, at least one; see `on_grid`."""
    first, count = window
    start = min(int(first * pace + _HALF), max(0, num_latents - 1))
    return start, min(_spanned(count, pace), num_latents - start)


def _spanned(count: int, pace: Fraction) -> int:
    return max(1, int(count * pace + _HALF))


def _no_rate(part: Part) -> ConfigError:
    return ConfigError(
        f"{part.shard_name}: the index does not say how many frames a second of it has, which this crop needs: build "
        "the shard again with its frame rate, or give crop_frames and no joined latents"
    )
