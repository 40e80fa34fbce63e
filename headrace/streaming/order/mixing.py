"""Computes how many samples of each stream are in an epoch, from the weights of the streams.

The weights `proportion`, `repeat`, `choose` and `epoch_size` mean the same as in MosaicML's StreamingDataset. The order
of the samples is computed by `passes` and `interleave`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.streaming.stream import convert_weights

MAX_SAMPLES = 3_000_000_000
"""Largest number of samples of a stream: products of two such numbers still fit 64 bits."""

MAX_EPOCH_SAMPLES = 10**12
"""Largest number of samples of an epoch, which may take each sample of its streams many times."""

_EPOCH_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


@dataclass(frozen=True, slots=True, eq=False)
class StreamSpec:
    """Facts about one stream in a mixture that the order depends on.

    Attributes:
        name: name of the stream in saved states; unique in a mixture.
        shard_sizes: (num_shards,) samples of each shard, in storage order; an integer array; shards may be empty.
        proportion: share of the epoch, relative to the other streams' proportions; 0 switches the stream off.
        repeat: how many times its samples are taken per epoch.
        choose: how many samples are taken per epoch.
        batch_size: samples of this stream in each global batch (stratified), or in a global batch of its own
            (per_stream); None derives it.

    At most one of `proportion`, `repeat` and `choose` is given; none means once (or its share of `epoch_size`).
    """

    name: str
    shard_sizes: NDArray[np.integer]
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        weights = {"proportion": self.proportion, "repeat": self.repeat, "choose": self.choose}
        given = {name: value for name, value in weights.items() if value is not None}
        if len(given) > 1:
            raise ConfigError(f"stream {self.name!r} has {' and '.join(given)}: give only one of them")
        convert_weights(self)
        if self.num_samples > MAX_SAMPLES:
            raise ConfigError(
                f"stream {self.name!r} has {self.num_samples} samples: at most {MAX_SAMPLES} are supported"
            )

    @property
    def num_samples(self) -> int:
        """Samples in the stream, each counted once."""
        return int(self.shard_sizes.sum(dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Streams and the size of an epoch.

    Attributes:
        streams: at least one; `stream_ids` are indices into it.
        epoch_size: samples of an epoch over all streams, in a form that `parse_epoch_size` accepts.
    """

    streams: tuple[StreamSpec, ...]
    epoch_size: int | str | None = None

    def __post_init__(self) -> None:
        if not self.streams:
            raise ConfigError("a mixture needs at least one stream")
        names = [stream.name for stream in self.streams]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(
                f"two streams are named {twice!r}: a saved state identifies streams by name, so give them different "
                "names with Stream(name=…)"
            )
        if self.size is not None and not any(stream.num_samples for stream in self.streams):
            raise ConfigError(
                f"epoch_size is {self.epoch_size!r}, but the streams have no samples to fill it: leave it out, or read "
                "another split"
            )

    @property
    def size(self) -> int | None:
        """`epoch_size` as a number."""
        return parse_epoch_size(self.epoch_size)

    @property
    def is_relative(self) -> bool:
        """Whether the weights divide the size of the epoch, rather than give numbers of samples."""
        return self.size is not None or any(stream.proportion is not None for stream in self.streams)


def parse_epoch_size(size: int | str | None) -> int | None:
    """Number of samples in an `epoch_size` such as 1000, "100k", "1.5M" or "77b"; None for None, 0 and "".

    Raises:
        ConfigError: not a positive number with one of the suffixes k, m, b, t (in either case).
    """
    if not size and not isinstance(size, bool):
        return None
    text = "" if isinstance(size, bool | float) else str(size).strip().lower().replace(",", "").replace("_", "")
    suffix = text[-1:] if text[-1:].isalpha() else ""
    try:
        number = int(Fraction(text.removesuffix(suffix)) * _EPOCH_UNITS[suffix])
    except (KeyError, ValueError, ZeroDivisionError):
        number = 0
    if number < 1:
        raise ConfigError(f"epoch_size {size!r}: expected a number of samples such as 100000, '100k', '64M' or '77b'")
    return number


def stream_counts(mixture: Mixture) -> list[int]:
    """Samples of each stream in an epoch, in the order of the streams.

    Relative weights (`proportion`) divide `epoch_size`, or as many samples as all streams have; rounding remainders go
    to the streams with the largest fractions. Absolute weights (`repeat`, `choose`) give the numbers directly.

    Raises:
        ConfigError: relative and absolute weights are mixed, `epoch_size` is given with absolute weights, all
            proportions are 0, or an empty stream should give samples.
    """
    streams = mixture.streams
    sizes = [stream.num_samples for stream in streams]
    total = mixture.size
    relative = [stream.proportion is not None for stream in streams]
    absolute = [stream.repeat is not None or stream.choose is not None for stream in streams]
    if any(relative) and not all(relative):
        other = streams[relative.index(False)].name
        raise ConfigError(
            f"stream {streams[relative.index(True)].name!r} has a proportion but stream {other!r} has none: "
            "give every stream a proportion, or none"
        )
    if all(stream.proportion == 0 for stream in streams):
        raise ConfigError("every stream's proportion is 0: give at least one a proportion above 0")
    if total is not None and any(absolute):
        name = streams[absolute.index(True)].name
        raise ConfigError(
            f"epoch_size={mixture.epoch_size!r} contradicts stream {name!r}, whose repeat or choose fixes its number "
            "of samples: leave out epoch_size, or use proportions"
        )
    if any(relative):
        counts = share_out(sum(sizes) if total is None else total, [stream.proportion or 0 for stream in streams])
    elif total is not None:
        counts = share_out(total, sizes)
    else:
        counts = [_absolute_count(stream) for stream in streams]
    return _checked_counts(streams, counts)


def share_out(total: int, weights: Sequence[float]) -> list[int]:
    """Whole parts of `total` in proportion to the weights; rounding remainders go to the largest fractions."""
    exact = [_as_written(weight) for weight in weights]
    whole = sum(exact)
    if whole == 0:
        return [0] * len(exact)
    shares = [total * weight / whole for weight in exact]
    parts = [int(share) for share in shares]
    by_fraction = sorted(range(len(parts)), key=lambda stream: (parts[stream] - shares[stream], stream))
    for stream in by_fraction[: total - sum(parts)]:
        parts[stream] += 1
    return parts


def _as_written(weight: float) -> Fraction:
    """The decimal number that the user wrote: 0.3 of 1000 samples is 300, although the float 0.3 is smaller."""
    return Fraction(str(weight))


def _absolute_count(stream: StreamSpec) -> int:
    if stream.choose is not None:
        return stream.choose
    repeat = 1 if stream.repeat is None else stream.repeat
    return int(_as_written(repeat) * stream.num_samples)


def _checked_counts(streams: Sequence[StreamSpec], counts: list[int]) -> list[int]:
    for stream, count in zip(streams, counts, strict=True):
        if count and not stream.num_samples:
            raise ConfigError(
                f"stream {stream.name!r} should give {count} samples but has none: leave it out, give it weight 0, or "
                "read another split"
            )
    if sum(counts) > MAX_EPOCH_SAMPLES:
        raise ConfigError(
            f"the epoch has {sum(counts)} samples: at most {MAX_EPOCH_SAMPLES} are supported; lower epoch_size"
        )
    return counts
