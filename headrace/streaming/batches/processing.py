"""Processes each sample after it is decoded: the crop, then the user's transform.

Random crops and transforms depend on the seed, the epoch and the sample's position in the epoch only, so they are the
same for every world size, thread and worker.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.errors import ConfigError, SampleError
from headrace.format.lazy import cached_property
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.ragged_fields import as_ragged, padded_itself
from headrace.streaming.order.bijection import mix
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, hidden_field
from headrace.streaming.rasters import Raster
from headrace.streaming.samples.crop import Crop
from headrace.streaming.samples.fields import AUDIO_NAMES, flaw
from headrace.streaming.settings import SampleSettings

_TRANSFORM = 1


@dataclass(frozen=True)
class SampleProcessing:
    """Processing of each sample.

    Attributes:
        config: the user's settings: crop, sample rate, transform.
        seed: the shuffle's seed, which also seeds crops and transforms.
        outputs: the fields of the stream's own latents, then of each output that is joined.
        has_metadata: whether samples have the field `metadata`.
        has_windows: whether some stream's samples are cut into windows.
        rasters: fields that are grids of events.
    """

    config: SampleSettings
    seed: int
    outputs: tuple[OutputField, ...] = (hidden_field(),)
    has_metadata: bool = True
    has_windows: bool = False
    rasters: Mapping[str, Raster] = field(default_factory=dict)

    @cached_property
    def crop(self) -> Crop:
        """Which frames of each sample are kept."""
        return Crop(self.config, self.seed, self.has_windows)

    @cached_property
    def pads_fields(self) -> bool:
        """Whether other fields than codes are padded: those of a transform."""
        return not self.config.pad.keys() <= {field.values for field in self.outputs if field.is_named}

    def transformed(self, sample: Sample, epoch: int, position: int) -> Sample:
        """The sample that the transform returns.

        Args:
            sample: may be changed by the transform.
            epoch: number of the epoch.
            position: the sample's row of the epoch.

        Raises:
            TypeError: the transform returned None.
        """
        if self.config.transform is None:
            return sample
        listed = {name: sample[name] for name in (AUDIO_NAMES, OUTPUT_FIELDS) if name in sample}
        if self._is_random:
            seed = int(mix(self.seed, epoch, position, _TRANSFORM))
            changed = self.config.transform(sample, rng=np.random.default_rng(seed))
        else:
            changed = self.config.transform(sample)
        if changed is None:
            raise TypeError("the transform gave None: let it return the sample")
        if listed and isinstance(changed, dict):  # a new dict of the transform's need not list them
            for name, value in listed.items():
                changed.setdefault(name, value)
        return changed

    def check(self, sample: Sample) -> None:
        """Check that a batch can be made from what the transform returned; lists that are padded become arrays.

        Raises:
            SampleError: a field has a wrong type or shape; names the field.
        """
        if self.config.transform is not None and (found := flaw(sample)) is not None:
            raise SampleError(f"the transform gave {found}")
        outputs = {field.values for field in self.outputs}
        for name in self.config.pad:
            if name in self.rasters:
                raise ConfigError(padded_itself(name))
            if name in sample and name not in outputs:
                sample[name] = as_ragged(name, sample[name])

    @cached_property
    def _is_random(self) -> bool:
        return self.config.transform is not None and wants_rng(self.config.transform)


def wants_rng(transform: Callable[..., Any]) -> bool:
    """Whether a user's function has a parameter `rng` that is not set yet, as it is with functools.partial."""
    import torch

    if isinstance(transform, torch.nn.Module):  # whose `__call__` takes any arguments
        transform = transform.forward
    try:
        wanted = inspect.signature(transform).parameters.get("rng")
    except (TypeError, ValueError):  # functions written in C may have no signature
        return False
    return wanted is not None and (wanted.default is inspect.Parameter.empty or wanted.default is None)
