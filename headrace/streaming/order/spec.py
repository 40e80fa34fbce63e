"""The settings that decide which sample arrives when: everything that an order depends on besides the data.

Owns the names of the settings, their checks and their JSON. Must not contain how fast samples arrive (threads,
prefetch, cache): nothing of that may change an order, and a test holds it so.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self, TypeVar

from headrace.errors import ConfigError
from headrace.streaming.checks import convert, flag, number, optional, whole

_Member = TypeVar("_Member", bound=StrEnum)

DEFAULT_CANONICAL_NODES = 64
DEFAULT_SEED = 9176
MAX_CANONICAL_NODES = 1 << 20  # more than any job has devices; some arrays have an entry for each


class ShuffleAlgo(StrEnum):
    """How one stream is shuffled."""

    BLOCK = "block"
    """Shards permuted, then samples mixed within blocks of `shuffle_block_size`: reads few shards at a time."""
    FULL = "full"
    """Every order of the samples alike likely: reads all shards at all times."""


ALGORITHM_ALIASES = {
    "py1e": ShuffleAlgo.BLOCK,
    "py1s": ShuffleAlgo.BLOCK,
    "py2s": ShuffleAlgo.BLOCK,
    "py1br": ShuffleAlgo.BLOCK,
    "naive": ShuffleAlgo.FULL,
}
"""MosaicML's names of shuffle algorithms, and which of ours is nearest."""


class BatchingMethod(StrEnum):
    """How the samples of several streams meet in global batches."""

    RANDOM = "random"
    """Any stream in any row, in proportion everywhere."""
    STRATIFIED = "stratified"
    """Every global batch holds the same number of samples of each stream."""
    PER_STREAM = "per_stream"
    """Every global batch comes from one stream."""
    DEVICE_PER_STREAM = "device_per_stream"
    """Every group of rows that are alike modulo the canonical nodes comes from one stream; so does every device's
    batch, if the world size divides by that number of groups or equals it."""


class SamplingMethod(StrEnum):
    """Which samples of a stream are taken in a pass that takes only some."""

    BALANCED = "balanced"
    """Others in each epoch."""
    FIXED = "fixed"
    """The same in each epoch."""


class LastBatch(StrEnum):
    """What becomes of samples that do not fill a global batch."""

    PAD = "pad"
    """Every sample arrives; the rest of the batch is padding, sample id -1."""
    DROP = "drop"
    """Only whole global batches arrive."""


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
        frames_per_batch: bound of rows times longest row, over a *global* batch: never per rank.
        batch_multiple: the number of rows is a multiple of this, so every world size that divides it fits.
        window_samples: samples that are sorted together, rounded down to a multiple of `batch_multiple`.
    """

    frames_per_batch: int
    batch_multiple: int = 8
    window_samples: int = 8192

    @property
    def window_rows(self) -> int:
        """Samples that are sorted together: whole groups, so that only the epoch's last batch needs padding rows."""
        return max(1, self.window_samples // self.batch_multiple) * self.batch_multiple

    def __post_init__(self) -> None:
        convert(self, whole, "frames_per_batch", "batch_multiple", "window_samples", least=1)


def buckets_of(batching: object) -> LengthBuckets | FrameBudget | None:
    """What `batching` names: "fixed" (None), "length_buckets", or one of the two itself.

    Raises:
        ConfigError: it is none of these; lists them.
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
    """What an order depends on besides the data, the streams' weights and the epoch. The world is not in it.

    Attributes:
        global_batch_size: rows of a global batch, over all ranks. The order of the samples itself depends on it only
            if `needs_global_batch`.
        shuffle: False reads each stream in storage order.
        shuffle_algo: `ShuffleAlgo`, or a name or alias for it.
        shuffle_seed: any integer.
        num_canonical_nodes: walks through each block that are independent of each other; positions that are alike
            modulo this number belong to one walk, so a rank whose world size divides it reads its own walks' shards.
        shuffle_block_size: samples that are mixed with each other, over all canonical nodes together; None takes 64
            shards' worth of each stream.
        batching_method: `BatchingMethod`, or its name.
        sampling_method: `SamplingMethod`, or its name.
        sampling_granularity: samples that are picked from a shard at a time in a pass that takes only some.
        last_batch: `LastBatch`, or its name.
        buckets: None, `LengthBuckets` or `FrameBudget`; the last two need `batching_method="random"`.
        crop_frames: what is kept of a sample, which decides its bucket; None without buckets. So the next two.
        crop_seconds: the same in seconds.
        sample_rate: what samples are resampled to, Hz.
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
                f"length buckets mix the batches of a window, which batching_method={self.batching_method.value!r} "
                "must not: use batching_method='random'"
            )
        if self.buckets is None:  # then no order depends on how long a sample is
            for name in ("crop_frames", "crop_seconds", "sample_rate"):
                set_field(self, name, None)

    @property
    def needs_global_batch(self) -> bool:
        """Whether another global batch size gives another order of samples, so that a state is bound to its own."""
        return self.batching_method is not BatchingMethod.RANDOM or isinstance(self.buckets, LengthBuckets)

    def to_json(self) -> dict[str, Any]:
        """JSON object with one field for each attribute; `from_json` is its inverse.

        Plain values only, no enum members: a checkpoint that holds it loads with `torch.load(weights_only=True)`.
        """
        fields = {name: value.value if isinstance(value, StrEnum) else value for name, value in asdict(self).items()}
        fields["buckets"] = asdict(self.buckets) if self.buckets else None
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
    """The algorithm of a name or of one of MosaicML's names.

    Raises:
        ConfigError: unknown name; lists the known ones.
    """
    known = {algo.value: algo for algo in ShuffleAlgo} | ALGORITHM_ALIASES
    if name not in known:
        raise ConfigError(f"shuffle_algo {name!r} is not known: expected one of {', '.join(known)}")
    return known[name]


def member(kind: type[_Member], field: str, value: str) -> _Member:
    """The member of `kind` that `value` names.

    Raises:
        ConfigError: no such member; names the field and lists the members.
    """
    names = [member.value for member in kind]
    if value not in names:
        raise ConfigError(f"{field} {value!r} is not known: expected one of {', '.join(names)}")
    return kind(value)
