"""Divides a data set into splits and partitions. Pure: no I/O, no clock, no randomness.

The partition of a recording depends only on the name of its group, so adding recordings does not move others.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from headrace.errors import ConfigError

_HASH_RANGE = 1 << 64


@dataclass(frozen=True, slots=True)
class ShardSize:
    """The size of a full shard; exactly one of the two is set.

    Attributes:
        samples_per_shard: number of samples.
        bytes_per_shard: the most planned bytes (`headrace.audio.planned_bytes`) of its samples.
    """

    samples_per_shard: int | None = None
    bytes_per_shard: int | None = None

    def __post_init__(self) -> None:
        """Check that one is set. Raises `ConfigError`."""
        given = [size for size in (self.samples_per_shard, self.bytes_per_shard) if size is not None]
        if len(given) != 1 or given[0] < 1:
            raise ConfigError(f"shards: expected samples_per_shard or bytes_per_shard, at least 1; found {self}")

    @property
    def layout(self) -> dict[str, int]:
        """The one that is set, by its name."""
        sizes = {"samples_per_shard": self.samples_per_shard, "bytes_per_shard": self.bytes_per_shard}
        return {name: size for name, size in sizes.items() if size is not None}

    def has_room(self, num_samples: int, num_bytes: int, next_bytes: int) -> bool:
        """Whether one more sample fits into a shard. An empty shard takes any sample, however large.

        Args:
            num_samples: samples that are in the shard.
            num_bytes: their planned bytes.
            next_bytes: planned bytes of the sample.
        """
        if self.bytes_per_shard is not None:
            return num_samples == 0 or num_bytes + next_bytes <= self.bytes_per_shard
        return self.samples_per_shard is not None and num_samples < self.samples_per_shard


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Division of a data set into splits, partitions and shards.

    Attributes:
        splits: split → share of the groups; shares add up to 1.
        partitions: split → number of its partitions; 1 for a split that is not in it.
        samples_per_shard: number of samples in a full shard.
    """

    splits: Mapping[str, float]
    partitions: Mapping[str, int]
    samples_per_shard: int

    def partition_keys(self) -> list[str]:
        """All partitions, split by split: `train-0000`, `train-0001` and so on."""
        return [key for split in self.splits for key in self.partition_keys_of(split)]

    def partition_keys_of(self, split: str) -> list[str]:
        """The partitions of one split."""
        return [f"{split}-{bucket:04d}" for bucket in range(self.partitions.get(split, 1))]


def assign_partitions(groups: Iterable[str], partitioning: Partitioning) -> list[str]:
    """The partition of each group, in the given order.

    The first 64 bits of the SHA-256 of the group's name determine the split, the next 64 bits the partition. Neither
    other groups nor the order of the splits in the YAML matter.
    """
    names = sorted(partitioning.splits)
    edges = [round(edge * _HASH_RANGE) for edge in accumulate(partitioning.splits[name] for name in names)]
    edges[-1] = _HASH_RANGE  # shares add up to 1 only within rounding
    keys = [partitioning.partition_keys_of(split) for split in names]  # shared by all rows: a table may have millions
    found: list[str] = []
    for group in groups:
        digest = hashlib.sha256(group.encode()).digest()
        buckets = keys[bisect_right(edges, int.from_bytes(digest[:8], "big"))]
        found.append(buckets[int.from_bytes(digest[8:16], "big") % len(buckets)])
    return found
