"""Makes an index from samples: the samples of a tar, grouped by the names of its members, and their columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import FormatError
from headrace.format.indexes.audio_fields import AudioFacts
from headrace.format.indexes.index import ABSENT, NAME_ERRORS, ShardIndex, index_name
from headrace.format.indexes.index_flaws import check_index
from headrace.format.tars.member_names import WAY_OUT, KeyAt, split_name
from headrace.format.tars.tar_members import Member
from headrace.format.tensors.outputs import Output
from headrace.format.tensors.tensors import TensorPlace


class PlacedTensor(NamedTuple):
    """The raw tensor of one output of a sample: its place, and the CRC-32 of its values, -1 if unknown."""

    place: TensorPlace
    crc32: int = ABSENT


_NO_TENSOR = PlacedTensor(TensorPlace(ABSENT, ABSENT, ABSENT, ABSENT))


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """Entry of one sample in an index.

    Attributes:
        key: WebDataset's `__key__`.
        ranges: field name → half-open byte range of its payload in the tar.
        num_frames: PCM frames or latent frames; -1 if unknown.
        sample_rate_hz: 0 if unknown or not audio.
        num_channels: 0 if unknown or not audio.
        tensors: the raw tensor of each output, in the order of the outputs; empty for other samples.
        crc32: field name → CRC-32 of its payload, for the fields whose payload was read.
        audio: named audio field → its facts, in the order of the fields; empty for the one field `audio`.
    """

    key: str
    ranges: dict[str, tuple[int, int]]
    num_frames: int = ABSENT
    sample_rate_hz: int = 0
    num_channels: int = 0
    tensors: tuple[PlacedTensor, ...] = ()
    crc32: dict[str, int] = field(default_factory=dict)
    audio: dict[str, AudioFacts] = field(default_factory=dict)


def build_index(  # noqa: PLR0913 - one argument per fact of the header
    entries: Sequence[SampleEntry],
    *,
    shard: str,
    num_bytes: int,
    sha256: str = "",
    input_digest: str = "",
    outputs: tuple[Output, ...] = (),
    notes: dict[str, str] | None = None,
) -> ShardIndex:
    """The index of a shard, from its samples; the fields are ordered by name.

    Raises:
        FormatError: samples contradict each other, or have byte ranges outside the tar.
    """
    audio_fields = tuple(dict.fromkeys(name for entry in entries for name in entry.audio))
    fields = tuple(sorted({name for entry in entries for name in entry.ranges}))
    keys = [entry.key.encode(errors=NAME_ERRORS) for entry in entries]
    absent = (ABSENT, ABSENT)
    ranges = [[entry.ranges.get(name, absent) for name in fields] for entry in entries]
    crc32 = [[entry.crc32.get(name, ABSENT) for name in fields] for entry in entries]
    tensors = [tensor for entry in entries for tensor in entry.tensors or (_NO_TENSOR,) * len(outputs)]
    index = ShardIndex(
        shard=shard,
        num_bytes=num_bytes,
        sha256=sha256,
        input_digest=input_digest,
        fields=fields,
        key_bytes=np.frombuffer(b"".join(keys), np.uint8),
        key_offsets=np.cumsum([0, *map(len, keys)], dtype=np.int64),
        ranges=np.array(ranges, np.int64).reshape(len(entries), len(fields), 2),
        crc32=np.array(crc32, np.int64).reshape(len(entries), len(fields)),
        num_frames=np.array([entry.num_frames for entry in entries], np.int64),
        sample_rate_hz=np.array([entry.sample_rate_hz for entry in entries], np.int32),
        num_channels=np.array([entry.num_channels for entry in entries], np.int16),
        tensors=np.array([tensor.place for tensor in tensors], np.int64).reshape(len(entries), len(outputs), 4),
        tensor_crc32=np.array([tensor.crc32 for tensor in tensors], np.int64).reshape(len(entries), len(outputs)),
        outputs=outputs,
        audio_fields=audio_fields,
        audio_facts=_audio_facts(entries, audio_fields) if audio_fields else None,
        notes=notes or {},
    )
    check_index(index, index_name(shard))
    return index


def _audio_facts(entries: Sequence[SampleEntry], names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Frames and channels of each named audio field, int64 (n, num_audio_fields, 2)."""
    unknown = AudioFacts(ABSENT, 0, 0)
    found = [[entry.audio.get(name, unknown) for name in names] for entry in entries]
    facts = [[(facts.num_frames, facts.num_channels) for facts in row] for row in found]
    return np.array(facts, np.int64).reshape(len(entries), len(names), 2)


def group_members(
    members: Iterator[Member] | Sequence[Member], shard: str, key_at: KeyAt = KeyAt.FIRST_DOT
) -> Iterator[SampleEntry]:
    """Samples of a tar, as WebDataset groups them: neighbouring members with the same key are one sample.

    Args:
        members: the members of the tar, in its order.
        shard: name of the tar, for messages.
        key_at: where a member's key ends.

    Raises:
        FormatError: the members of a sample are not neighbours (readers would silently split the sample), or a sample
            has a field twice, or a field is a link without its file, a device or the like.
    """
    seen: set[str] = set()
    key, ranges = "", dict[str, tuple[int, int]]()
    for member in members:
        if (found := split_name(member.name, key_at)) is None:
            continue
        if member.fault:
            raise FormatError(f"{shard}: {member.fault}")
        own_key, name = found
        if own_key != key:
            if ranges:
                yield SampleEntry(key, ranges)
            key, ranges = own_key, {}
            if key in seen:
                raise FormatError(apart_fault(shard, key, name))
            seen.add(key)
        if name in ranges:
            raise FormatError(f"{shard}: sample {key!r} has two fields {name!r}")
        ranges[name] = (member.start, member.stop)
    if ranges:
        yield SampleEntry(key, ranges)


def apart_fault(shard: str, key: str, field: str) -> str:
    """The message about a shard in which the fields of a sample are not neighbours."""
    dots = f"; or, if keys hold dots, {WAY_OUT}" if "." in field else ""
    return f"{shard}: the files of sample {key!r} are not neighbours; write the shard again, sorted{dots}"
