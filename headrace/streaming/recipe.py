"""What batches are made of, besides their plans.

Owns what is kept of a sample, the crop, and the user's transform. What is random in both depends on the seed, the epoch
and the sample's place in it, and on nothing else, so that it is the same on every world, thread and worker.
"""

import inspect
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.streaming.batch import Sample
from headrace.streaming.bijection import mix
from headrace.streaming.decode import Window
from headrace.streaming.rows import Row
from headrace.streaming.settings import SampleConfig

_TRANSFORM = 1

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    """What each sample becomes, and what that depends on.

    Attributes:
        config: what each sample becomes.
        seed: the shuffle's seed, which also seeds crops.
        suffixes: what is added to `encoder_hidden` for the primary and for each joined latents folder.
    """

    config: SampleConfig
    seed: int
    suffixes: tuple[str, ...] = ("",)

    def window(self, row: Row, epoch: int, num_frames: int) -> Window:
        """What the crop keeps of a sample of so many frames."""
        if not self._crops:
            return 0, num_frames
        facts = (np.array([fact], np.int64) for fact in (num_frames, row.primary.sample_rate_hz, row.position))
        first, count = self.windows(epoch, *facts)
        return int(first[0]), int(count[0])

    def windows(self, epoch: int, num_frames: Ints, rates: Ints, positions: Ints) -> tuple[Ints, Ints]:
        """The same for many samples: first frame and number of frames, int64 (n,) both.

        Args:
            epoch: number of the epoch.
            num_frames: int64 (n,), stored frames.
            rates: int64 (n,), sample rates; 0 where there is none.
            positions: int64 (n,), the row of the epoch that each is.
        """
        if not self._crops:
            return np.zeros_like(num_frames), num_frames
        config, wanted = self.config, num_frames
        if config.crop_frames is not None:
            wanted = np.minimum(config.crop_frames, num_frames)
        if config.crop_seconds is not None:
            seconds = np.rint(config.crop_seconds * rates).astype(np.int64)
            wanted = np.where(rates > 0, np.minimum(seconds, num_frames), wanted)
        room = (num_frames - wanted + 1).astype(np.uint64)
        return (mix(self.seed, epoch, positions) % room).astype(np.int64), wanted

    def transformed(self, sample: Sample, epoch: int, position: int) -> Sample:
        """What the transform makes of a sample.

        Args:
            sample: changed or not, as the transform likes.
            epoch: number of the epoch.
            position: the row of the epoch that it is.

        Raises:
            TypeError: the transform gave nothing.
        """
        if self.config.transform is None:
            return sample
        if self._is_random:
            seed = int(mix(self.seed, epoch, position, _TRANSFORM))
            changed = self.config.transform(sample, rng=np.random.default_rng(seed))
        else:
            changed = self.config.transform(sample)
        if changed is None:
            raise TypeError("the transform gave None: let it return the sample")
        return changed

    @cached_property
    def _is_random(self) -> bool:
        if self.config.transform is None:
            return False
        try:
            wanted = inspect.signature(self.config.transform).parameters.get("rng")
        except (TypeError, ValueError):  # a function of C may have none
            return False
        # One that was given, as by functools.partial, stays.
        return wanted is not None and (wanted.default is inspect.Parameter.empty or wanted.default is None)

    @property
    def _crops(self) -> bool:
        return self.config.crop_frames is not None or self.config.crop_seconds is not None
