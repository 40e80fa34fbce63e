"""What batches are made of, besides their plans.

Owns the user's transform. What is random in it depends on the seed, the epoch and the sample's place in it, and on
nothing else, so that it is the same on every world, thread and worker.
"""

import inspect
from dataclasses import dataclass

import numpy as np

from headrace.errors import SampleError
from headrace.lazy import cached_property
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.crop import Crop
from headrace.streaming.batches.fields import flaw
from headrace.streaming.order.bijection import mix
from headrace.streaming.settings import SampleConfig

_TRANSFORM = 1


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

    @cached_property
    def crop(self) -> Crop:
        """What is kept of each sample, and where."""
        return Crop(self.config, self.seed)

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

    def check(self, sample: Sample) -> None:
        """See that a batch can be made of what the transform gave; decoding gives nothing else.

        Raises:
            SampleError: it cannot, naming the field.
        """
        if self.config.transform is not None and (found := flaw(sample)) is not None:
            raise SampleError(f"the transform gave {found}")

    @cached_property
    def _is_random(self) -> bool:
        transform = self.config.transform
        if transform is None:
            return False
        import torch

        if isinstance(transform, torch.nn.Module):  # which hands on what it is called with
            transform = transform.forward
        try:
            wanted = inspect.signature(transform).parameters.get("rng")
        except (TypeError, ValueError):  # a function of C may have none
            return False
        # One that was given, as by functools.partial, stays.
        return wanted is not None and (wanted.default is inspect.Parameter.empty or wanted.default is None)
