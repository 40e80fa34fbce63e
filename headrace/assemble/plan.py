"""Plans which sample of a partition goes to which shard. Pure: no I/O, no clock, no randomness.

A sample that is already in a shard stays there, so a change of the source rewrites only the shards that it concerns.

New samples are put into a row, shuffled by hash. The last shard takes from the beginning of the row what fits into it,
then a new shard does, and so on. No shard takes a sample out of turn to fill a gap, so a shard of a size in bytes may
have room for a small sample. Its limit holds for what is added: a shard whose recordings were replaced by longer ones
may exceed it.
"""

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.config.partitioning import ShardSize
from headrace.errors import ConfigError
from headrace.format.segment_keys import span_recording


@dataclass(frozen=True, slots=True)
class PlannedSample:
    """A sample that should exist.

    Attributes:
        key: key of the sample.
        recording: key or path of its recording; samples of one recording stay together.
        index: number of its segment in the recording, or first frame of its span.
        digest: digest of everything that its bytes depend on, except the audio settings.
        num_bytes: planned size of its audio.
        audio: digest of everything that its audio depends on (`headrace.assemble.taken_over`); empty to encode it.
    """

    key: str
    recording: str
    index: int
    digest: str
    num_bytes: int = 0
    audio: str = ""


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
    size: ShardSize,
    settings: str,
) -> list[ShardPlan]:
    """The shards that a partition should have, in order of their numbers.

    Samples of `previous` keep their shard and their order in it. A new span takes the place of a span of the same
    recording that is gone, so that a row whose span changes concerns one shard. Other new samples fill the last shard
    and then new shards, in an order shuffled by hash, so that recordings are mixed (see above).

    Args:
        previous: number of a shard → the keys that were planned for it; empty to lay out the partition from scratch:
            before its first build, and if `layout_of` differs from the newest manifest's.
        samples: the samples that the partition should have, in any order, with unique keys.
        size: size of a full shard.
        settings: digest of everything else that the bytes of every shard depend on.

    Raises:
        ConfigError: two samples have the same key.
    """
    waiting = {sample.key: sample for sample in samples}
    if len(waiting) != len(samples):
        raise ConfigError(f"{len(samples) - len(waiting)} samples share a key with another; keys must be unique")
    replaced = _in_places_of_gone_spans(previous, waiting)
    groups = {
        sequence: [waiting.pop(key) for key in (replaced.get(key, key) for key in keys) if key in waiting]
        for sequence, keys in previous.items()
    }
    new = sorted(waiting.values(), key=_shuffled)
    _fill(groups, new, size)
    return [
        ShardPlan(sequence, tuple(group), _input_digest(sequence, group, settings))
        for sequence, group in sorted(groups.items())
        if group
    ]


def layout_of(size: ShardSize, reshuffle: int) -> dict[str, int]:
    """`Manifest.layout`: the settings that decide which samples share a shard."""
    return size.layout | ({"reshuffle": reshuffle} if reshuffle else {})


def _fill(groups: dict[int, list[PlannedSample]], new: Sequence[PlannedSample], size: ShardSize) -> None:
    """Add new samples, in their order, to the last group and then to new groups."""
    sequence = max(groups, default=0)
    group = groups.setdefault(sequence, [])
    num_bytes = sum(sample.num_bytes for sample in group)
    for sample in new:
        if not size.has_room(len(group), num_bytes, sample.num_bytes):
            sequence += 1
            group, num_bytes = groups.setdefault(sequence, []), 0
        group.append(sample)
        num_bytes += sample.num_bytes


def _in_places_of_gone_spans(
    previous: Mapping[int, Sequence[str]], wanted: Mapping[str, PlannedSample]
) -> dict[str, str]:
    """Key of a span that is gone → key of a new span of the same recording. For keys that are made from spans."""
    known = {key for keys in previous.values() for key in keys}
    gone = [key for keys in previous.values() for key in keys if key not in wanted and span_recording(key)]
    if not gone:
        return {}
    free: dict[str, deque[str]] = {}
    for sample in sorted(wanted.values(), key=_shuffled):
        if sample.key not in known and (recording := span_recording(sample.key)):
            free.setdefault(recording, deque()).append(sample.key)
    found = {}
    for key in gone:
        if new := free.get(span_recording(key)):
            found[key] = new.popleft()
    return found


def _shuffled(sample: PlannedSample) -> tuple[bytes, str, int, str]:
    """Sort key: recordings in the order of their hashes, segments and spans of one recording together."""
    return hashlib.sha256(sample.recording.encode()).digest(), sample.recording, sample.index, sample.key


def _input_digest(sequence: int, samples: Sequence[PlannedSample], settings: str) -> str:
    """Digest of what a shard is made from. It includes the number, so that no shard of another number is reused."""
    lines = [settings, str(sequence), *(f"{sample.key} {sample.digest}" for sample in samples)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
