"""What batches are made of, besides their plans.

Owns what is kept of a sample: the crop, which depends on the seed, the epoch and the sample's place in it, and on
nothing else, so that it is the same on every world.
"""

from dataclasses import dataclass

from headrace.streaming.bijection import mix
from headrace.streaming.decode import Window
from headrace.streaming.rows import Row
from headrace.streaming.settings import SampleConfig


@dataclass(frozen=True, slots=True)
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
        config, rate = self.config, row.primary.sample_rate_hz
        wanted = round(config.crop_seconds * rate) if config.crop_seconds and rate else config.crop_frames
        if wanted is None or wanted >= num_frames:
            return 0, num_frames
        draw = int(mix(self.seed, epoch, row.position)) % (num_frames - wanted + 1)
        return draw, wanted
