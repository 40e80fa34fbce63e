"""Settings of a dataset besides its order: how samples are processed, and how shards are fetched.

The settings of the order are in `order.spec`. Nothing in `FetchSettings` changes the samples, which tests check.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from headrace.arguments import convert, flag, function, number, optional, whole
from headrace.errors import ConfigError

Transform = Callable[..., dict[str, Any]]
"""`f(sample)`, or `f(sample, rng)` with a `numpy.random.Generator`; returns a sample."""


class OnBadSample(StrEnum):
    """Treatment of a sample that cannot be read."""

    RAISE = "raise"
    """`SampleError`, naming shard, key and reason."""
    SKIP = "skip"
    """A row of padding in its place, counted and limited; batch counts stay equal on all ranks."""


class OnMissingLatents(StrEnum):
    """Treatment of a sample whose latents were rejected when they were made."""

    RAISE = "raise"
    """`SampleError`, naming shard, key and reason."""
    SKIP = "skip"
    """A row of padding in its place; batch counts stay equal on all ranks."""
    ZEROS = "zeros"
    """The sample with latents of length 0."""


class ArrayType(StrEnum):
    """Type of the arrays in batches."""

    TORCH = "torch"
    NUMPY = "numpy"


class Decode(StrEnum):
    """Decoding of the files in other people's samples that are neither audio, latents nor the sample's JSON."""

    NONE = "none"
    """Bytes."""
    BASIC = "basic"
    """Text, numbers, JSON, arrays, tensors and images, by extension; see `batches.decoded_fields`."""


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """Settings for processing samples.

    Attributes:
        crop_frames: frames (of the stored audio, or latent frames if only latents are read) to cut out at a place that
            is drawn from seed, epoch and position; shorter samples stay whole. Joined latents are cut with their audio.
        crop_seconds: the same in seconds.
        sample_rate_hz: rate to which audio is resampled; None keeps the rate of each sample.
        transform: called with each sample's dict, after decoding and resampling; its result is collated. If it has a
            parameter `rng`, it gets a generator that is seeded for the sample.
        on_bad_sample: `OnBadSample`, or its name.
        max_bad_samples: how many bad samples one rank may skip over the life of a loader; one more is an error. Samples
            of a loop over the dataset itself are counted separately.
        output: `ArrayType`, or its name.
        on_missing_latents: `OnMissingLatents`, or its name. Samples that it skips do not count as bad samples.
        decode: `Decode`, or its name.
        pad: fields of a transform whose values (L, …) differ in length, and what each is padded with.
        valid_frames: whether batches say which frames are not padding.
        crop_min_dbfs: level that a crop should have; None for any.
        crop_draws: places that are drawn until one has this level.
        batch_transform: called with each batch, on the thread or in the process that made it; its result replaces the
            batch. If it has a parameter `rng`, it gets a generator that is seeded for the batch.
    """

    crop_frames: int | None = None
    crop_seconds: float | None = None
    sample_rate_hz: int | None = None
    transform: Transform | None = None
    on_bad_sample: OnBadSample = OnBadSample.RAISE
    max_bad_samples: int = 100
    output: ArrayType = ArrayType.TORCH
    on_missing_latents: OnMissingLatents = OnMissingLatents.RAISE
    decode: Decode = Decode.NONE
    pad: Mapping[str, float] = field(default_factory=dict)
    batch_transform: Transform | None = None
    valid_frames: bool = False
    crop_min_dbfs: float | None = None
    crop_draws: int = 8

    @property
    def crops(self) -> bool:
        """Whether parts of samples are cut out."""
        return self.crop_frames is not None or self.crop_seconds is not None

    def __post_init__(self) -> None:
        """Check the values. Raises `ConfigError`."""
        if self.crop_frames is not None and self.crop_seconds is not None:
            raise ConfigError("crop_frames and crop_seconds are both given: give one of them")
        convert(self, optional(whole), "crop_frames", least=1)
        convert(self, optional(whole), "sample_rate_hz", called="sample_rate", least=1)
        convert(self, optional(number), "crop_seconds")
        convert(self, optional(function), "transform", "batch_transform")
        convert(self, fills, "pad")
        convert(self, whole, "max_bad_samples", least=0)
        convert(self, flag, "valid_frames")
        convert(self, whole, "crop_draws", least=1)
        convert(self, optional(number), "crop_min_dbfs", least=-1000)
        if self.crop_min_dbfs is not None and not self.crops:
            raise ConfigError(f"crop_min_dbfs={self.crop_min_dbfs:g} is given without crop_seconds or crop_frames")
        kinds = {
            "on_bad_sample": OnBadSample,
            "on_missing_latents": OnMissingLatents,
            "output": ArrayType,
            "decode": Decode,
        }
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value not in list(kind):
                raise ConfigError(f"{name} {value!r} is not known: expected one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Settings for fetching shards. Only speed depends on them.

    Attributes:
        download_retry: how often a failed request is sent again, with growing pauses; None keeps trying for 120 s.
            Damaged data is fetched again as often, or twice for None.
        download_timeout_seconds: limit of one request, to its last byte; whole shards are read in requests of 8 MiB.
        validate_hash: check digests of local files too, those in the cache included, once per process and shard; whole
            shards are always checked when they are downloaded.
        keep_zip: keep the compressed form of `.tar.gz` and `.tar.zst` shards in the cache as well.
        cache_limit_bytes: limit of the cache folder; None for no limit.
        predownload: samples per rank to download ahead, at least 8 batches; None takes a shuffle block.
    """

    download_retry: int | None = None
    download_timeout_seconds: float = 60.0
    validate_hash: bool = False
    keep_zip: bool = False
    cache_limit_bytes: int | None = None
    predownload: int | None = None

    def __post_init__(self) -> None:
        """Check the values. Raises `ConfigError`."""
        convert(self, optional(whole), "download_retry", least=0)
        convert(self, number, "download_timeout_seconds", called="download_timeout")
        convert(self, digest_check, "validate_hash")
        convert(self, flag, "keep_zip")
        convert(self, optional(whole), "predownload", least=0)


def fills(name: str, value: object) -> dict[str, float]:
    """Names of fields and what to pad them with.

    Raises:
        ConfigError: the value is not such a mapping.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is {value!r}: expected names of fields with their padding, such as {{'tokens': 0}}")
    for one, fill in value.items():
        if not isinstance(one, str) or not isinstance(fill, bool | int | float):
            raise ConfigError(f"{name}[{one!r}] is {fill!r}: expected a number that the field is padded with")
    return dict(value)


def digest_check(name: str, value: object) -> bool:
    """Whether digests of local files are checked: None, False, True, or "sha256", the only algorithm.

    Raises:
        ConfigError: the value is something else.
    """
    if value is None or isinstance(value, bool | np.bool_):
        return bool(value)
    if value != "sha256":
        raise ConfigError(f"{name} is {value!r}: expected None, True, False or 'sha256'")
    return True
