"""Settings that an order depends on, besides the data: their names, their checks and their JSON.

Settings of speed (threads, prefetch, cache) are in `streaming.settings`: they change no order, which tests check.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self, TypeVar

from headrace.arguments import convert, flag, number, optional, whole
from headrace.errors import ConfigError

_Member = TypeVar("_Member", bound=StrEnum)

DEFAULT_CANONICAL_NODES = 64
DEFAULT_SEED = 9176
MAX_CANONICAL_NODES = 1 << 20  # more than any job has devices; some arrays have an entry for each


class ShuffleAlgo(StrEnum):
    """Shuffle of one stream."""

    BLOCK = "block"
    """Shuffles the shards, then the samples within blocks of `shuffle_block_size`; few shards are open at a time."""
    FULL = "full"
    """Every order of the samples is equally likely; all shards are open at all times."""


ALGORITHM_ALIASES = {
    "py1e": ShuffleAlgo.BLOCK,
    "py1s": ShuffleAlgo.BLOCK,
    "py2s": ShuffleAlgo.BLOCK,
    "py1br": ShuffleAlgo.BLOCK,
    "naive": ShuffleAlgo.FULL,
}
"""MosaicML's names of shuffle algorithms, each with the most similar one of Headrace."""


class BatchingMethod(StrEnum):
    """Combination of the samples of several streams in global batches."""

    RANDOM = "random"
    """Each row may be of any stream; the proportions hold everywhere in the epoch."""
    STRATIFIED = "stratified"
    """Every global batch has the same number of samples of each stream."""
    PER_STREAM = "per_stream"
    """Every global batch is of one stream."""
    DEVICE_PER_STREAM = "device_per_stream"
    """Each group of rows that are equal modulo the canonical nodes is of one stream; so is the batch of each device, if
    the world size equals the number of groups or is a multiple of it."""


class SamplingMethod(StrEnum):
    """Which samples of a stream a partial pass takes."""

    BALANCED = "balanced"
    """Different samples in each epoch."""
    FIXED = "fixed"
    """Each epoch takes the same samples."""


class LastBatch(StrEnum):
    """Treatment of samples that do not fill a global batch."""

    PAD = "pad"
    """All samples are delivered; the rest of the batch is padding, with sample id -1."""
    DROP = "drop"
    """Only full global batches are delivered."""


@dataclass(frozen=True, slots=True)
class LengthBuckets:
    """Batches of samples of similar length: windows of `window_batches` global batches are sorted and cut again."""

    window_batches: int = 64

    def __post_init__(self) -> None:
        convert(self, whole, "window_batches", least=1)


@dataclass(frozen=True, slots=True)
class FrameBudget:
    """Global batches of similar length and of at most `frames_per_batch` frames, padding included.

    Attributes:
        frames_per_batch: limit of rows times longest row of a *global* batch, not of the batch of a rank.
        seconds_per_batch: the same in seconds, instead of frames; needs samples of one rate, or resampling to one.
        batch_multiple: the number of rows is a multiple of this; every world size that divides it is possible.
        window_samples: samples whose batches are shuffled together. Ranges of lengths are chosen so that two windows
            fill a batch of each: more samples give narrower ranges, and less padding.
    """

    frames_per_batch: int | None = None
    batch_multiple: int = 8
    window_samples: int = 8192
    seconds_per_batch: float | None = None

    def __post_init__(self) -> None:
        convert(self, whole, "batch_multiple", "window_samples", least=1)
        convert(self, optional(whole), "frames_per_batch", least=1)
        convert(self, optional(number), "seconds_per_batch")
        if (self.frames_per_batch is None) == (self.seconds_per_batch is None):
            raise ConfigError("FrameBudget needs one of frames_per_batch and seconds_per_batch")

    @property
    def frames(self) -> int:
        """`frames_per_batch`, of a budget that is in frames."""
        assert self.frames_per_batch is not None
        return self.frames_per_batch

    def at(self, rate_hz: float) -> "FrameBudget":
        """The budget in frames, for samples of this many frames per second."""
        if self.seconds_per_batch is None:
            return self
        return FrameBudget(max(1, int(self.seconds_per_batch * rate_hz)), self.batch_multiple, self.window_samples)


def buckets_of(batching: object) -> LengthBuckets | FrameBudget | None:
    """The length buckets of the argument `batching`; None for "fixed".

    Raises:
        ConfigError: the value is not "fixed", "length_buckets", a `LengthBuckets` or a `FrameBudget`.
    """
    if batching is None or isinstance(batching, LengthBuckets | FrameBudget):
        return batching
    known = {"fixed": None, "length_buckets": LengthBuckets()}
    if not isinstance(batching, str) or batching not in known:
        raise ConfigError(
            f"batching {batching!r} is not known: expected one of {', '.join(known)}, or LengthBuckets(…) or "
            "FrameBudget(…)"
        )
    return known[batching]


@dataclass(frozen=True, slots=True)
class OrderSpec:
    """Settings that an order depends on, besides data, weights of streams and epoch. It does not hold the world.

    Attributes:
        global_batch_size: rows of a global batch, over all ranks. The order of the samples itself depends on it only
            if `needs_global_batch`.
        shuffle: False reads each stream in storage order.
        shuffle_algo: `ShuffleAlgo`, or a name or alias for it.
        shuffle_seed: any integer.
        num_canonical_nodes: number of nodes that take turns in each block; positions that are equal modulo this number
            belong to one node, so if the world size divides it, a rank reads only the shards of its nodes.
        shuffle_block_size: samples of a shuffle block, over all canonical nodes together; None takes the samples of 64
            shards of each stream.
        batching_method: `BatchingMethod`, or its name.
        sampling_method: `SamplingMethod`, or its name.
        sampling_granularity: consecutive samples that a partial pass takes or leaves out together.
        last_batch: `LastBatch`, or its name.
        buckets: None, `LengthBuckets` or `FrameBudget`; the last two need `batching_method="random"`.
        crop_frames: frames that a crop keeps of a sample, which decide its bucket; None without buckets.
        crop_seconds: the same in seconds; None without buckets.
        sample_rate: rate to which samples are resampled, Hz; None without buckets.
    """

    global_batch_size: int
    shuffle: bool = False
    shuffle_algo: ShuffleAlgo = ShuffleAlgo.BLOCK
    shuffle_seed: int = DEFAULT_SEED
    num_canonical_nodes: int = DEFAULT_CANONICAL_NODES
    shuffle_block_size: int | None = None
    batching_method: BatchingMethod = BatchingMethod.RANDOM
    sampling_method: SamplingMethod = SamplingMethod.BALANCED
    sampling_granularity: int = 1
    last_batch: LastBatch = LastBatch.PAD
    buckets: LengthBuckets | FrameBudget | None = None
    crop_frames: int | None = None
    crop_seconds: float | None = None
    sample_rate: int | None = None

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "shuffle_algo", shuffle_algo(self.shuffle_algo))
        set_field(self, "batching_method", member(BatchingMethod, "batching_method", self.batching_method))
        set_field(self, "sampling_method", member(SamplingMethod, "sampling_method", self.sampling_method))
        set_field(self, "last_batch", member(LastBatch, "last_batch", self.last_batch))
        convert(self, whole, "global_batch_size", "num_canonical_nodes", "sampling_granularity", least=1)
        if self.num_canonical_nodes > MAX_CANONICAL_NODES:
            raise ConfigError(
                f"num_canonical_nodes is {self.num_canonical_nodes}: expected at most {MAX_CANONICAL_NODES}; the "
                "number of devices of the largest world that will train is enough"
            )
        convert(self, flag, "shuffle")
        convert(self, whole, "shuffle_seed")
        convert(self, optional(whole), "shuffle_block_size", "crop_frames", "sample_rate", least=1)
        convert(self, optional(number), "crop_seconds")
        if self.buckets is not None and self.batching_method is not BatchingMethod.RANDOM:
            raise ConfigError(
                f"length buckets mix the batches of a window, and batching_method={self.batching_method.value!r} keeps "
                "batches apart: use batching_method='random'"
            )
        if self.buckets is None:  # without buckets the order does not depend on lengths
            for name in ("crop_frames", "crop_seconds", "sample_rate"):
                set_field(self, name, None)

    @property
    def needs_global_batch(self) -> bool:
        """Whether the order of samples depends on the global batch size, so that a state requires the same size."""
        return self.batching_method is not BatchingMethod.RANDOM or isinstance(self.buckets, LengthBuckets)

    def to_json(self) -> dict[str, Any]:
        """JSON object with one field for each attribute; `from_json` is its inverse.

        The values are plain, not enum members, so `torch.load(weights_only=True)` loads a checkpoint with them.
        """
        fields = {name: value.value if isinstance(value, StrEnum) else value for name, value in asdict(self).items()}
        if self.buckets is not None:
            fields["buckets"] = {name: value for name, value in asdict(self.buckets).items() if value is not None}
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The spec that `to_json` wrote.

        Raises:
            ConfigError: a value is not allowed.
            TypeError: a field is missing or unknown.
        """
        buckets = fields.get("buckets")
        if buckets is not None:
            kind = LengthBuckets if "window_batches" in buckets else FrameBudget
            fields = fields | {"buckets": kind(**buckets)}
        return cls(**fields)


def shuffle_algo(name: str) -> ShuffleAlgo:
    """The algorithm with this name, or the one that corresponds to this name of MosaicML.

    Raises:
        ConfigError: unknown name; lists the known ones.
    """
    known = {algo.value: algo for algo in ShuffleAlgo} | ALGORITHM_ALIASES
    if name not in known:
        raise ConfigError(f"shuffle_algo {name!r} is not known: expected one of {', '.join(known)}")
    return known[name]


def member(kind: type[_Member], field: str, value: str) -> _Member:
    """The member of `kind` whose value is `value`.

    Raises:
        ConfigError: no such member; names the field and lists the members.
    """
    names = [member.value for member in kind]
    if value not in names:
        raise ConfigError(f"{field} {value!r} is not known: expected one of {', '.join(names)}")
    return kind(value)
