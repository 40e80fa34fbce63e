"""Takes audio over from the shards that a partition has: bytes are copied, and no recording is opened or decoded.

When a caption changes, or all shards are arranged again, the audio of most samples stays the same. A sample's *audio
digest* is a digest of everything that its audio depends on: the content of the recording, the frames, the audio
settings and the versions of the codecs. The planned keys of a manifest list it for each sample. So a build finds the
shard that has a sample's audio without opening any shard, also under another key and in another layout.

What cannot be read, or does not have the CRC-32 in its index, is encoded again.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, BinaryIO, NamedTuple, cast

from headrace import checksums
from headrace.assemble.encoding_tasks import fields_of
from headrace.audio import AudioFormat, AudioOrigin, Codec, EncodedSegment, Segment, codec_version
from headrace.catalog.rows.recordings import Recording
from headrace.errors import HeadraceError, IntegrityError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.planned_keys import PlannedKey
from headrace.stores.refetch import until_sound
from headrace.stores.storage import Storage

DIGEST_LENGTH = 32
"""Hex digits of an audio digest."""
_TASK_BYTES = 4 << 20  # copied by one thread at a time
_TASK_SAMPLES = 64
_IN_MEMORY_BYTES = 32 << 20  # a larger file goes through an unnamed temporary one
_PIECE_BYTES = 8 << 20


def audio_digest(key: str, recording: Recording, segment: Segment, audio: AudioFormat) -> str:
    """Digest of everything that the audio of a sample depends on, in all of its fields.

    The key belongs to it only for Opus, whose streams have the serial number of their sample; the metadata only with
    a transform, which is given it.
    """
    if not recording.fields:
        return _field_digest(key, recording, segment, audio)
    rows = zip(recording.fields, fields_of(recording), strict=True)
    content = [[file.name, _field_digest(key, row, segment, audio)] for file, row in rows]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:DIGEST_LENGTH]


def _field_digest(key: str, recording: Recording, segment: Segment, audio: AudioFormat) -> str:
    info = recording.info
    is_opus = audio.codec is Codec.OPUS
    content: list[Any] = [
        codec_version(audio.codec),
        audio.codec.value,
        audio.output_rate_hz(info.sample_rate_hz),
        audio.output_channels(info),
        audio.opus_bitrate if is_opus else [audio.output_bits(info), audio.compression_level],
        recording.sha256,
        [recording.span.start_frame, recording.span.stop_frame, *recording.channels] if recording.is_span else [],
        segment.start_frame,
        segment.num_frames,
        key if is_opus else "",
    ]
    if audio.transform is not None:
        content += [audio.transform.function, audio.transform.fingerprint, recording.metadata]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:DIGEST_LENGTH]


class AudioPlace(NamedTuple):
    """An audio field of a sample in a shard: its extension, byte range and CRC-32; and its facts."""

    extension: str
    start: int
    stop: int
    crc32: int
    num_frames: int
    sample_rate_hz: int
    num_channels: int


Place = tuple[str, tuple[AudioPlace, ...]]
"""Name of a shard, and the places of a sample's audio fields in it."""


@dataclass(slots=True)
class OldShards:
    """The shards that a partition had before the build, as a source of audio. Safe for threads only to read from.

    Attributes:
        storage: the folder of audio shards.
        places: audio digest → shard and key.
    """

    storage: Storage
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    _indexes: dict[str, ShardIndex | None] = field(default_factory=dict)

    @classmethod
    def of(cls, storage: Storage, names: Iterable[str], planned: Iterable[Sequence[PlannedKey]]) -> "OldShards":
        """The shards of a manifest, given their names and planned keys, in the same order."""
        named = zip(names, planned, strict=True)
        return cls(storage, {entry.audio: (name, entry.key) for name, keys in named for entry in keys if entry.audio})

    def find(self, digest: str) -> Place | None:
        """Name of a shard that has this audio, and the places there; None if no shard has it."""
        if (place := self.places.get(digest)) is None:
            return None
        name, key = place
        if (index := self._index(name)) is None:
            return None
        found = _stored(index, key)
        return None if found is None else (name, found)

    def _index(self, name: str) -> ShardIndex | None:
        """The index of a shard; None if it is missing or damaged."""
        if name not in self._indexes:
            try:
                self._indexes[name] = read_index(self.storage, name)
            except HeadraceError:
                self._indexes[name] = None
        return self._indexes[name]


def _stored(index: ShardIndex, key: str) -> tuple[AudioPlace, ...] | None:
    """The audio fields of a sample; None without the sample, or if a field or its CRC-32 is missing."""
    if (row := index.find(key)) is None:
        return None
    found = [_stored_field(index, row, name) for name in index.audio_fields or ("",)]
    fields = tuple(field for field in found if field is not None)
    return fields if len(fields) == len(found) else None


def _stored_field(index: ShardIndex, row: int, name: str) -> AudioPlace | None:
    if (audio := index.audio_of(row, name)) is None:
        return None
    crc32 = int(index.crc32[row, index.fields.index(audio.member)])
    if crc32 == ABSENT:
        return None
    extension, rate_hz = audio.member.rpartition(".")[2], int(index.sample_rate_hz[row])
    return AudioPlace(extension, *audio.span, crc32, audio.num_frames, rate_hz, audio.num_channels)


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Samples that one thread copies from one shard, in the order of the new shard.

    Attributes:
        storage: the folder of the shard.
        shard: its name.
        samples: rows of the catalog, and their segments.
        stored: their audio fields, sample by sample.
    """

    storage: Storage
    shard: str
    samples: tuple[tuple[Recording, Segment], ...]
    stored: tuple[AudioPlace, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes to copy."""
        return sum(audio.stop - audio.start for audio in self.stored)

    @property
    def share(self) -> float:
        """Share of a full task, 0 to 1."""
        return min(1.0, self.num_bytes / _TASK_BYTES)

    def copied(self) -> list[EncodedSegment]:
        """The audio fields, sample by sample, as they are in the shard; damaged bytes from a store are read again.

        Raises:
            HeadraceError: the shard cannot be read, or does not have the CRC-32 of its index.
        """
        what = f"{self.storage.uri}/{self.shard}"
        return until_sound(lambda storage: self._encoded(self._checked(storage)), self.storage, what)

    def unchecked(self) -> list[EncodedSegment]:
        """Audio fields as of `copied`, for a caller that compares all bytes with each field's CRC-32 before publishing.

        Raises:
            HeadraceError: the shard cannot be read.
        """
        return self._encoded(self._read(self.storage))

    def _encoded(self, payloads: Iterator[bytes | BinaryIO]) -> list[EncodedSegment]:
        return [_as_encoded(audio, payload) for audio, payload in zip(self.stored, payloads, strict=True)]

    def _checked(self, storage: Storage) -> Iterator[bytes | BinaryIO]:
        for audio, payload in zip(self.stored, self._read(storage), strict=True):
            if isinstance(payload, bytes):  # a file was compared when it was copied
                self._check(audio, checksums.crc32(payload))
            yield payload

    def _read(self, storage: Storage) -> Iterator[bytes | BinaryIO]:
        if len(self.samples) == 1 and self.num_bytes > _IN_MEMORY_BYTES:
            return (self._in_a_file(storage, audio) for audio in self.stored)
        return iter(storage.read_ranges(self.shard, [(audio.start, audio.stop) for audio in self.stored]))

    def _in_a_file(self, storage: Storage, audio: AudioPlace) -> BinaryIO:
        file, crc32 = cast("BinaryIO", tempfile.TemporaryFile(buffering=0)), 0  # noqa: SIM115 - closed with its last use
        for start in range(audio.start, audio.stop, _PIECE_BYTES):
            (piece,) = storage.read_ranges(self.shard, [(start, min(start + _PIECE_BYTES, audio.stop))])
            crc32 = checksums.crc32(piece, crc32)
            file.write(piece)
        self._check(audio, crc32)
        file.seek(0)
        return file

    def _check(self, audio: AudioPlace, found: int) -> None:
        if found != audio.crc32:
            raise IntegrityError(
                f"{self.storage.uri}/{self.shard}: bytes {audio.start} to {audio.stop} have the CRC-32 {found:08x}, "
                f"expected {audio.crc32:08x}"
            )


_Copy = tuple[Recording, Segment, tuple[AudioPlace, ...]]


def divided(
    samples: Iterable[tuple[Recording, Segment, str]], old: OldShards
) -> Iterator[CopyTask | list[tuple[Recording, Segment]]]:
    """Divide the samples of a shard, without changing their order, into what is copied and runs of what is encoded.

    The segments of a recording are copied if all of them can be: if a recording turns out to be damaged, all of its
    segments are rejected, not only those that are encoded.

    Args:
        samples: row of the catalog, segment and audio digest of each sample.
        old: the shards to copy from.
    """
    copies: list[_Copy] = []
    encoded: list[tuple[Recording, Segment]] = []
    shard, num_bytes = "", 0
    for _, group in groupby(samples, key=lambda sample: sample[0].key):
        segments = list(group)
        found = [old.find(digest) for _, _, digest in segments]
        if None in found:
            if copies:
                yield _copy_task(old, shard, copies)
                copies, num_bytes = [], 0
            encoded += [(recording, segment) for recording, segment, _ in segments]
            continue
        if encoded:
            yield encoded
            encoded = []
        for (recording, segment, _), (name, audio) in zip(segments, cast("list[Place]", found), strict=True):
            size = sum(field.stop - field.start for field in audio)
            if copies and (name != shard or num_bytes + size > _TASK_BYTES or len(copies) == _TASK_SAMPLES):
                yield _copy_task(old, shard, copies)
                copies, num_bytes = [], 0
            copies.append((recording, segment, audio))
            shard, num_bytes = name, num_bytes + size
    if copies:
        yield _copy_task(old, shard, copies)
    if encoded:
        yield encoded


def _copy_task(old: OldShards, shard: str, copies: Sequence[_Copy]) -> CopyTask:
    samples = tuple((recording, segment) for recording, segment, _ in copies)
    return CopyTask(old.storage, shard, samples, tuple(field for _, _, audio in copies for field in audio))


def _as_encoded(audio: AudioPlace, payload: bytes | BinaryIO) -> EncodedSegment:
    return EncodedSegment(
        payload=payload,
        num_bytes=audio.stop - audio.start,
        num_frames=audio.num_frames,
        sample_rate_hz=audio.sample_rate_hz,
        num_channels=audio.num_channels,
        bits_per_sample=None,
        extension=audio.extension,
        origin=AudioOrigin.SHARD,
        crc32=audio.crc32,
    )
