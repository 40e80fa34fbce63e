"""The two configurations of a loader: what each sample becomes, and how fast samples come.

Owns the typed settings and reading "50gb". The order has its own (`spec.OrderSpec`). Nothing in `FetchConfig` changes
what arrives; tests hold it so.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.errors import ConfigError
from headrace.streaming.checks import convert, flag, function, number, optional, whole

Transform = Callable[..., dict[str, Any]]
"""`f(sample)`, or `f(sample, rng)` with a `numpy.random.Generator`; gives a sample."""

_BYTE_UNITS = {unit: 1024**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb", "pb", "eb"))} | {"": 1}


class OnBadSample(StrEnum):
    """What becomes of a sample that cannot be read."""

    RAISE = "raise"
    """`SampleError`, naming shard, key and reason."""
    SKIP = "skip"
    """A row of padding in its place, counted and limited; batch counts stay equal on all ranks."""


class Output(StrEnum):
    """What batches are made of."""

    TORCH = "torch"
    NUMPY = "numpy"


@dataclass(frozen=True, slots=True)
class SampleConfig:
    """What each sample becomes.

    Attributes:
        crop_frames: frames (of the stored audio, or latent frames where only latents are read) to cut out at a place
            drawn from seed, epoch and position; shorter samples stay whole. Joined latents are cut with their audio.
        crop_seconds: the same in seconds.
        sample_rate_hz: resample audio to this rate on reading; None keeps each sample's own.
        transform: called with each sample's dict, after decoding and resampling; its result is collated. If it has a
            parameter `rng`, it is given a generator that is seeded for the sample.
        on_bad_sample: `OnBadSample`, or its name.
        max_bad_samples: how many one rank may skip, over the life of a loader, before it is an error after all. Samples
            that are taken from the dataset itself are counted apart.
        output: `Output`, or its name.
    """

    crop_frames: int | None = None
    crop_seconds: float | None = None
    sample_rate_hz: int | None = None
    transform: Transform | None = None
    on_bad_sample: OnBadSample = OnBadSample.RAISE
    max_bad_samples: int = 100
    output: Output = Output.TORCH

    @property
    def crops(self) -> bool:
        """Whether parts of samples are cut out."""
        return self.crop_frames is not None or self.crop_seconds is not None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.crop_frames is not None and self.crop_seconds is not None:
            raise ConfigError("crop_frames and crop_seconds are both given: give one of them")
        convert(self, optional(whole), "crop_frames", least=1)
        convert(self, optional(whole), "sample_rate_hz", called="sample_rate", least=1)
        convert(self, optional(number), "crop_seconds")
        convert(self, optional(function), "transform")
        convert(self, whole, "max_bad_samples", least=0)
        for name, kind in (("on_bad_sample", OnBadSample), ("output", Output)):
            value = getattr(self, name)
            if value not in list(kind):
                raise ConfigError(f"{name} {value!r} is not known: expected one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """How shards get here. Only speed depends on it.

    Attributes:
        download_retry: further attempts after a failed one, with growing pauses.
        download_timeout_seconds: of one request, to its last byte; whole shards come in requests of 8 MiB.
        validate_hash: check digests of local files too, those in the cache included, once per process and shard; whole
            shards are always checked when they are downloaded.
        keep_zip: keep the compressed form of foreign `.tar.gz` and `.tar.zst` shards in the cache as well.
        cache_limit_bytes: bound of the cache folder; None for none.
        predownload: samples per rank to download ahead, at least 8 batches; None takes a shuffle block.
    """

    download_retry: int = 2
    download_timeout_seconds: float = 60.0
    validate_hash: bool = False
    keep_zip: bool = False
    cache_limit_bytes: int | None = None
    predownload: int | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        convert(self, whole, "download_retry", least=0)
        convert(self, number, "download_timeout_seconds", called="download_timeout")
        convert(self, flag, "keep_zip")
        convert(self, optional(whole), "predownload", least=0)


def parse_bytes(size: int | str | None, name: str = "cache_limit") -> int | None:
    """A number of bytes from 1000, "100b", "64kb" or "50gb" (1024s, case-free); None stays None.

    >>> parse_bytes("1.5kb")
    1536

    Raises:
        ConfigError: not such a size, or not positive.
    """
    if size is None:
        return None
    match = re.fullmatch(r"\s*([0-9._]+)\s*([a-z]*)\s*", str(size).lower())
    try:
        found = int(float(match[1]) * _BYTE_UNITS[match[2]]) if match else 0
    except (KeyError, ValueError):
        found = 0
    if found < 1:
        raise ConfigError(f"{name} {size!r}: expected a number of bytes such as 1000000, '64kb' or '50gb'")
    return found
