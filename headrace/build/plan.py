"""Plans which sample of a partition goes to which shard. Pure: no I/O, no clock, no randomness.

A sample that is already in a shard stays there, so a change of the source rewrites only the shards that it concerns.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """A sample that should exist.

    Attributes:
        key: key of the sample.
        recording: key of its recording; samples of one recording stay together.
        index: number of its segment in the recording.
        digest: digest of everything that its bytes depend on, except the audio settings.
    """

    key: str
    recording: str
    index: int
    digest: str


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """A shard that should exist.

    Attributes:
        sequence: number of the shard in the partition.
        samples: the shard's samples, in order.
        input_digest: digest of everything that the shard is made from.
    """

    sequence: int
    samples: tuple[PlannedSample, ...]
    input_digest: str


def plan_shards(
    previous: Mapping[int, Sequence[str]],
    samples: Sequence[PlannedSample],
    *,
    samples_per_shard: int,
    settings: str,
) -> list[ShardPlan]:
    """The shards that a partition should have, in order of their numbers.

    Samples of `previous` keep their shard and their order in it. New samples fill the last shard and then new shards,
    in an order shuffled by hash, so that recordings are mixed.

    Args:
        previous: number of a shard → the keys that were planned for it; empty to lay out the partition from scratch:
            before its first build, and if `layout_of` differs from the newest manifest's.
        samples: the samples that the partition should have, in any order, with unique keys.
        samples_per_shard: samples of a full shard.
        settings: digest of everything else that the bytes of every shard depend on.

    Raises:
        ConfigError: two samples have the same key.
    """
    waiting = {sample.key: sample for sample in samples}
    if len(waiting) != len(samples):
        raise ConfigError(f"{len(samples) - len(waiting)} samples share a key with another; keys must be unique")
    groups = {sequence: [waiting.pop(key) for key in keys if key in waiting] for sequence, keys in previous.items()}
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
    """`Manifest.layout`: the settings that decide which samples share a shard."""
    return {"samples_per_shard": samples_per_shard} | ({"reshuffle": reshuffle} if reshuffle else {})


def _shuffled(sample: PlannedSample) -> tuple[bytes, str, int]:
    """Sort key: recordings in the order of their hashes, segments of one recording together."""
    return hashlib.sha256(sample.recording.encode()).digest(), sample.recording, sample.index


def _input_digest(sequence: int, samples: Sequence[PlannedSample], settings: str) -> str:
    """Digest of what a shard is made from. It includes the number, so that no shard of another number is reused."""
    lines = [settings, str(sequence), *(f"{sample.key} {sample.digest}" for sample in samples)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
