"""Which recording goes to which partition, and which sample to which shard. Pure: no I/O, no clock, no randomness.

Buckets are static: a recording's partition is a function of its group alone. Inside a partition assignment is
remembered: every sample that is still there stays in its shard, so a change rewrites the shards that it touches and no
other one.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from headrace.errors import ConfigError
from headrace.manifests import Manifest, sequence_of

_HASH_RANGE = 1 << 64


@dataclass(frozen=True, slots=True)
class Layout:
    """How a data set is divided.

    Attributes:
        splits: split → share of the groups; shares add up to 1.
        partitions: split → number of its buckets (1 where none is given).
        samples_per_shard: a shard is closed when it holds this many.
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


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """A sample that should exist.

    Attributes:
        key: its `__key__`.
        recording: key of the recording it comes from; samples of one recording stay together.
        index: which segment of the recording it is.
        digest: of all that its bytes depend on besides the audio settings.
    """

    key: str
    recording: str
    index: int
    digest: str


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """A shard that should exist: its number in the partition, its samples in order, and what it is made from."""

    sequence: int
    samples: tuple[PlannedSample, ...]
    input_digest: str


def assign_partitions(groups: Iterable[str], layout: Layout) -> list[str]:
    """The partition of each group, in the order given.

    The split is chosen by the first 64 bits of the group's SHA-256, the bucket by the next 64, so that neither the
    other groups nor their number matter; nor does the order in which the YAML names the splits.
    """
    names = sorted(layout.splits)
    edges = [round(edge * _HASH_RANGE) for edge in accumulate(layout.splits[name] for name in names)]
    edges[-1] = _HASH_RANGE  # shares add up to 1 only within rounding
    keys = [layout.partition_keys_of(split) for split in names]  # shared by all rows: a table may have millions
    found: list[str] = []
    for group in groups:
        digest = hashlib.sha256(group.encode()).digest()
        buckets = keys[bisect_right(edges, int.from_bytes(digest[:8], "big"))]
        found.append(buckets[int.from_bytes(digest[8:16], "big") % len(buckets)])
    return found


def plan_shards(
    previous: Manifest | None,
    samples: Sequence[PlannedSample],
    *,
    samples_per_shard: int,
    settings: str,
    reshuffle: int = 0,
) -> list[ShardPlan]:
    """The shards that a partition should have, in order of their numbers.

    Samples of `previous` keep their shard and their order in it; new ones top up the last shard and then open new ones,
    in an order shuffled by hash so that shards are mixed. With another `samples_per_shard` or `reshuffle` than the
    manifest's the partition is laid out from scratch.

    Args:
        previous: what the partition holds now.
        samples: what it should hold, in any order; keys are unique.
        samples_per_shard: samples in a full shard.
        settings: digest of all else that the bytes of every shard depend on.
        reshuffle: how many times the data set was laid out anew.

    Raises:
        ConfigError: two samples have the same key.
    """
    waiting = {sample.key: sample for sample in samples}
    if len(waiting) != len(samples):
        raise ConfigError(f"{len(samples) - len(waiting)} samples share a key with another; keys must be unique")
    groups = _remembered(previous, waiting, layout_of(samples_per_shard, reshuffle))
    new = sorted(waiting.values(), key=_shuffled)
    if groups and new:
        last = groups[max(groups)]
        room = max(0, samples_per_shard - len(last))
        last.extend(new[:room])
        new = new[room:]
    first_free = 1 + max(groups, default=-1)
    for start in range(0, len(new), samples_per_shard):
        groups[first_free + start // samples_per_shard] = new[start : start + samples_per_shard]
    return [
        ShardPlan(sequence, tuple(group), _input_digest(sequence, group, settings))
        for sequence, group in sorted(groups.items())
        if group
    ]


def layout_of(samples_per_shard: int, reshuffle: int) -> dict[str, int]:
    """What a manifest says of the settings that decide which samples share a shard (`Manifest.layout`)."""
    return {"samples_per_shard": samples_per_shard} | ({"reshuffle": reshuffle} if reshuffle else {})


def _remembered(
    previous: Manifest | None, waiting: dict[str, PlannedSample], layout: dict[str, int]
) -> dict[int, list[PlannedSample]]:
    """Samples that are still wanted, by the shard that they are in; they are taken out of `waiting`."""
    if previous is None or previous.layout != layout:
        return {}
    return {
        sequence_of(shard.name): [waiting.pop(key) for key in shard.samples if key in waiting]
        for shard in previous.shards
    }


def _shuffled(sample: PlannedSample) -> tuple[bytes, str, int]:
    """Recordings in hash order, the segments of one recording side by side."""
    return hashlib.sha256(sample.recording.encode()).digest(), sample.recording, sample.index


def _input_digest(sequence: int, samples: Sequence[PlannedSample], settings: str) -> str:
    """The number is part of it: a shard left over under another number must not be taken for this one."""
    lines = [settings, str(sequence), *(f"{sample.key} {sample.digest}" for sample in samples)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
