"""Chooses the frames that a crop keeps of a sample, and of the latents that are joined to it.

Where a crop begins depends on the seed, the epoch and the sample's position in the epoch only, so it is the same for
every world size, thread and worker. The crop of audio with joined latents begins where a latent frame begins, and the
latents are cropped to the same time. Latents without a time axis, such as one vector for each clip, stay whole and do
not move the audio's crop. Of
several vectors of a sample, one is drawn in the same way.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.indexes.index import ShardIndex
from headrace.streaming.order.bijection import mix
from headrace.streaming.samples.stored_sample import BatchRow, StoredSample
from headrace.streaming.settings import SampleSettings
from headrace.streaming.windows import Windows

_HALF = Fraction(1, 2)
_DRAW, _CHOICE = 2, 3
_FINEST_RATE = 1_000_000  # denominator of a frame rate in Hz

Ints = NDArray[np.int64]
FrameWindow: TypeAlias = tuple[int, int]
"""First kept frame, and number of kept frames."""


@dataclass(frozen=True, slots=True)
class Crop:
    """Crop of samples.

    Attributes:
        config: length of the crop.
        seed: seed of the random positions.
        has_windows: whether some stream's samples are cut into windows.
    """

    config: SampleSettings
    seed: int
    has_windows: bool = False

    @property
    def cuts(self) -> bool:
        """Whether parts of samples are cut out, so that a batch says where they begin."""
        return self.config.crops or self.has_windows

    def windows(
        self, epoch: int, num_frames: Ints, rates_hz: NDArray[np.float64], positions: Ints, draw: int = 0
    ) -> tuple[Ints, Ints]:
        """First frame and number of frames of many samples without joined latents, int64 (n,) both.

        Args:
            epoch: number of the epoch.
            num_frames: int64 (n,), stored frames.
            rates_hz: float64 (n,), frames per second; used for a crop in seconds only.
            positions: int64 (n,), each sample's row of the epoch.
            draw: number of the draw: 0, or more where the places of earlier draws are too quiet.
        """
        if not self.config.crops:
            return np.zeros_like(num_frames), num_frames
        kept = frames_kept(self.config, num_frames, rates_hz)
        room = (num_frames - kept + 1).astype(np.uint64)
        drawn = mix(self.seed, epoch, positions, *((_DRAW, draw) if draw else ()))
        return (drawn % room).astype(np.int64), kept

    def of(self, row: BatchRow, epoch: int) -> "SampleCrop":
        """The crop of one sample."""
        return SampleCrop(self, row, epoch)


class SampleCrop:
    """The crop of one sample and its joined latents. Call `primary` before `joined`."""

    def __init__(self, crop: Crop, row: BatchRow, epoch: int) -> None:
        self._crop = crop
        self.row = row
        self._epoch = epoch
        self._clock = row.clock
        self._is_whole = True
        self._window: FrameWindow = (0, 0)
        self._rate_hz = 0.0

    @property
    def cuts(self) -> bool:
        """See `Crop.cuts`."""
        return self._crop.cuts

    @property
    def is_measured(self) -> bool:
        """Whether the indexes know the length and the rate that `place` needs."""
        return self._clock.num_frames >= 0 and self._clock.rate_hz > 0

    @property
    def first_frame(self) -> int:
        """The first kept frame. Call `primary` before."""
        return self._window[0]

    @property
    def num_frames(self) -> int:
        """Number of kept frames. Call `primary` before."""
        return self._window[1]

    @property
    def is_whole(self) -> bool:
        """Whether all frames are kept. Call `primary` before."""
        return self._is_whole

    @property
    def rate_hz(self) -> float:
        """Frames per second; 0 if unknown. Call `primary` before."""
        return self._rate_hz

    @property
    def span_seconds(self) -> tuple[float, float]:
        """Times in the sample between which frames are kept, if the rate is known. Call `primary` before."""
        first, count = self._window
        return first / self._rate_hz, (first + count) / self._rate_hz

    @property
    def start_seconds(self) -> float:
        """Time of the first kept frame in the sample; NaN if the rate is unknown, or before `primary`."""
        return self._window[0] / self._rate_hz if self._rate_hz else math.nan

    def primary(self, num_frames: int, rate_hz: float, draw: int = 0) -> FrameWindow:
        """The kept frames of what the crop is measured in (`Clock`), which was read or whose facts are known.

        Args:
            num_frames: its stored frames.
            rate_hz: its frames per second; 0 if unknown.
            draw: see `Crop.windows`.

        Raises:
            ConfigError: the rate is needed and unknown.
        """
        self._rate_hz, self._window = rate_hz, (0, num_frames)
        if (window := self.row.window) is not None:
            self._window = window.first, min(window.num_frames, num_frames - window.first)
            self._is_whole = self._window == (0, num_frames)
            return self._window
        if not self._crop.config.crops or not self._clock.has_time_axis:
            return self._window
        timed = [sample for sample in self._clock.others if sample is not None and sample.has_time_axis]
        if not rate_hz and (self._crop.config.crop_seconds is not None or timed):
            raise _no_rate(self.row.primary)
        facts = (np.array([num_frames]), np.array([rate_hz]), np.array([self.row.position]))
        first, count = (int(found[0]) for found in self._crop.windows(self._epoch, *facts, draw))
        self._is_whole = count == num_frames
        if timed and not self._is_whole:
            slowest = min(timed, key=lambda sample: sample.latent_rate_hz)
            first = on_grid((first, count), self._pace(slowest), slowest.num_frames)
        self._window = first, count
        return self._window

    def place(self) -> None:
        """Place the crop by the facts of the indexes, because what it is measured in is not read.

        Raises:
            ConfigError: the index does not know the length, or not a rate that is needed.
        """
        if self._clock.num_frames < 0:
            raise ConfigError(
                f"{self.row.primary.called}: the index does not know its length, and latents and events are cut with "
                "the audio: read the audio as well (fields=…), or leave the crop out"
            )
        self.primary(self._clock.num_frames, self._clock.rate_hz)

    def own(self, num_latents: int) -> FrameWindow:
        """The kept frames of the latents in the sample's own folder: of the output that is read first.

        Args:
            num_latents: stored latent frames.

        Raises:
            ConfigError: a rate is needed and unknown.
        """
        sample = self.row.primary
        if sample.output == 0:
            self.primary(num_latents, sample.latent_rate_hz)
        else:
            self.place()
        is_measured = sample.output == 0 and not sample.is_choice
        return self._window if is_measured else self._cut(sample, num_latents)

    def choice(self, num_vectors: int) -> FrameWindow:
        """The vector that is drawn of a sample's. Sets of one column draw the same, because it depends on the row."""
        drawn = mix(self._crop.seed, self._epoch, np.array([self.row.position]), _CHOICE)
        return int(drawn[0] % np.uint64(max(1, num_vectors))), min(1, num_vectors)

    def joined(self, number: int, num_latents: int) -> FrameWindow:
        """The kept frames of joined latents: those at the time of the audio's; all if they have no time axis.

        Args:
            number: number of the joined folder.
            num_latents: stored latent frames.

        Raises:
            ConfigError: their frame rate is unknown.
        """
        return self._cut(self.row.joined[number], num_latents)

    def _cut(self, sample: StoredSample | None, num_latents: int) -> FrameWindow:
        if sample is not None and sample.is_choice:
            return self.choice(num_latents)
        if self._is_whole or sample is None or not sample.has_time_axis:
            return 0, num_latents
        return latents_under(self._window, self._pace(sample), num_latents)

    def _pace(self, sample: StoredSample) -> Fraction:
        """Latent frames per frame of audio."""
        if not sample.latent_rate_hz:
            raise _no_rate(sample)
        rates = (Fraction(rate).limit_denominator(_FINEST_RATE) for rate in (sample.latent_rate_hz, self._rate_hz))
        return next(rates) / next(rates)


def frames_kept(config: SampleSettings, num_frames: Ints, rates_hz: NDArray[np.float64]) -> Ints:
    """Number of frames that a crop keeps of samples with `num_frames` (n,) at `rates_hz` (n,), int64 (n,)."""
    if config.crop_seconds is not None:
        return np.minimum(np.maximum(1, np.rint(config.crop_seconds * rates_hz)).astype(np.int64), num_frames)
    return num_frames if config.crop_frames is None else np.minimum(config.crop_frames, num_frames)


def kept_share(index: ShardIndex, cut: SampleSettings | Windows) -> float:
    """Mean share of a shard's frames that a crop, or one window, keeps of a sample."""
    frames = np.maximum(index.lengths, 1)
    kept = cut.frames(index.rates_hz)[0] if isinstance(cut, Windows) else frames_kept(cut, frames, index.rates_hz)
    return float(np.minimum(kept, frames).sum() / frames.sum())


def on_grid(window: FrameWindow, pace: Fraction, num_latents: int) -> int:
    """First frame of a window of audio after it is moved back to the beginning of a latent frame.

    Args:
        window: kept frames of the audio.
        pace: latent frames per frame of audio.
        num_latents: latent frames of the whole audio; the window is moved back far enough that all of its latents
            exist.

    Returns:
        The frame of audio nearest to the beginning of that latent frame.
    """
    first, count = window
    number = max(0, min(int(first * pace), num_latents - _spanned(count, pace)))
    return int(number / pace + _HALF)


def latents_under(window: FrameWindow, pace: Fraction, num_latents: int) -> FrameWindow:
    """The latent frames at the time of a window of audio, at least one; see `on_grid`."""
    first, count = window
    start = min(int(first * pace + _HALF), max(0, num_latents - 1))
    return start, min(_spanned(count, pace), num_latents - start)


def _spanned(count: int, pace: Fraction) -> int:
    return max(1, int(count * pace + _HALF))


def _no_rate(sample: StoredSample) -> ConfigError:
    return ConfigError(
        f"{sample.shard_name}: the index has no frame rate, which this crop needs: build the shard again with its "
        "frame rate, or give crop_frames and no joined latents"
    )
