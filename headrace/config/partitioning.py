"""Divides a data set into splits and partitions. Pure: no I/O, no clock, no randomness.

The partition of a recording depends only on the name of its group, so adding recordings does not move others.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

_HASH_RANGE = 1 << 64


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a data set is divided into splits, partitions and shards.

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
