"""The index of one shard: which samples it holds, where each field lies, and how long each sample is.

Owns the `.idx` format and building an index from a tar that is there already. One index lies beside each shard and is
loaded with it; nothing here knows of snapshots, plans or the other shards.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from headrace import tables
from headrace.errors import FormatError
from headrace.lazy import cached_property
from headrace.tar import Member

FORMAT_VERSION = 1
INDEX_SUFFIX = ".idx"
FRAME_RATE_NOTE = "frame_rate_hz"
"""The note in which shards of latents say how many latent frames a second has."""
ABSENT = -1

# WebDataset's rule: the key is everything up to the first dot of the last path component, the rest is the field.
_KEY_AND_FIELD = re.compile(r"^((?:.*/|)[^./]+)[.]([^/]*)$")
_NAME_ERRORS = "surrogateescape"  # tarfile's: names that are not UTF-8 survive
_META_MEMBER = re.compile(r"(^|/)__[^/]*__($|/)")


class TensorPlace(NamedTuple):
    """Where the raw values of a (T, D) tensor lie: half-open byte range in the tar, and shape."""

    start: int
    stop: int
    num_frames: int
    width: int

    def after(self, offset: int) -> "TensorPlace":
        """The same place in a file in which so many bytes come before."""
        return self._replace(start=self.start + offset, stop=self.stop + offset)


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """What an index says of one sample while the index is being made.

    Attributes:
        key: WebDataset's `__key__`.
        ranges: field name → half-open byte range of its payload in the tar.
        num_frames: PCM frames or latent frames; -1 when unknown.
        sample_rate_hz: 0 when unknown or not audio.
        num_channels: 0 when unknown or not audio.
        tensor: for latents, the raw tensor data, else None.
    """

    key: str
    ranges: dict[str, tuple[int, int]]
    num_frames: int = ABSENT
    sample_rate_hz: int = 0
    num_channels: int = 0
    tensor: TensorPlace | None = None


class IndexRow(NamedTuple):
    """All numbers of one sample of an index.

    Attributes:
        num_frames: see `ShardIndex`.
        sample_rate_hz: see `ShardIndex`.
        num_channels: see `ShardIndex`.
        tensor: None where there is none.
        spans: start and stop of each field's byte range, field after field; -1 where the sample lacks it.
    """

    num_frames: int
    sample_rate_hz: int
    num_channels: int
    tensor: TensorPlace | None
    spans: list[int]


class Column(IntEnum):
    """Columns of `ShardIndex.numbers`: those of `IndexRow`, with the tensor's own in between."""

    NUM_FRAMES = 0
    RATE = 1
    CHANNELS = 2
    START = 3
    STOP = 4
    TENSOR_FRAMES = 5
    WIDTH = 6
    RANGES = 7


@dataclass(frozen=True)
class ShardIndex:
    """All samples of one shard, as columns.

    Attributes:
        shard: file name of the tar.
        num_bytes: size of the tar.
        sha256: digest of the tar, hex; empty when it was never computed.
        input_digest: what the shard was made from (see `headrace.shards`); empty for foreign tars.
        fields: names of the fields; columns of `ranges`.
        key_bytes: uint8, all keys, UTF-8, end to end.
        key_offsets: int64 (n + 1,), where each key starts in `key_bytes`.
        ranges: int64 (n, num_fields, 2), half-open byte ranges in the tar; -1 where a sample lacks the field.
        num_frames: int64 (n,), PCM or latent frames; -1 when unknown.
        sample_rate_hz: int32 (n,); 0 when unknown or not audio.
        num_channels: int16 (n,); 0 when unknown or not audio.
        tensors: int64 (n, 4), byte range in the tar and shape (T, D) of the raw tensor; -1 where there is none.
        tensor_dtype: numpy-style name (`float16`, `bfloat16`, `float32`) of the raw tensors; empty without tensors.
        notes: further strings (JSON) of the writer: rejects, encoder, the audio shard that latents belong to.
    """

    shard: str
    num_bytes: int
    sha256: str
    input_digest: str
    fields: tuple[str, ...]
    key_bytes: np.ndarray[Any, np.dtype[np.uint8]]
    key_offsets: np.ndarray[Any, np.dtype[np.int64]]
    ranges: np.ndarray[Any, np.dtype[np.int64]]
    num_frames: np.ndarray[Any, np.dtype[np.int64]]
    sample_rate_hz: np.ndarray[Any, np.dtype[np.int32]]
    num_channels: np.ndarray[Any, np.dtype[np.int16]]
    tensors: np.ndarray[Any, np.dtype[np.int64]]
    tensor_dtype: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.num_frames)

    @cached_property
    def latent_rate_hz(self) -> float:
        """Latent frames in a second; 0 when unknown or no latents."""
        return float(self.notes.get(FRAME_RATE_NOTE, 0))

    def key(self, i: int) -> str:
        """Key of sample `i`."""
        edges = self._key_edges
        return str(self._keys[edges[i] : edges[i + 1]], "utf-8", _NAME_ERRORS)

    def keys(self) -> list[str]:
        """All keys, in the order of the tar."""
        return self.keys_of(range(len(self)))

    def keys_of(self, rows: Iterable[int]) -> list[str]:
        """Keys of these samples."""
        keys, edges = self._keys, self._key_edges
        return [str(keys[edges[i] : edges[i + 1]], "utf-8", _NAME_ERRORS) for i in rows]

    def row(self, i: int) -> IndexRow:
        """All numbers of sample `i` at once: several times as fast as column by column."""
        num_frames, rate, channels, *rest = self.numbers[i].tolist()
        tensor = TensorPlace._make(rest[:4]) if rest[0] != ABSENT else None
        return IndexRow(num_frames, rate, channels, tensor, rest[4:])

    def range_of(self, i: int, name: str) -> tuple[int, int] | None:
        """Half-open byte range of field `name` of sample `i`; None when it has none."""
        if name not in self.fields:
            return None
        start, stop = (int(edge) for edge in self.ranges[i, self.fields.index(name)])
        return None if start == ABSENT else (start, stop)

    @cached_property
    def _keys(self) -> bytes:
        return self.key_bytes.tobytes()

    @cached_property
    def _key_edges(self) -> list[int]:
        return list(self.key_offsets.tolist())  # to take a number out of an array costs more than to make the key

    def find(self, key: str) -> int | None:
        """The sample with this key; None when there is none."""
        return self._places.get(key)

    @cached_property
    def numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """All numbers of every sample, int64 (n, 7 + 2 * num_fields); see `Column`."""
        numbers = np.empty((len(self), Column.RANGES + 2 * len(self.fields)), np.int64)
        numbers[:, Column.NUM_FRAMES] = self.num_frames
        numbers[:, Column.RATE] = self.sample_rate_hz
        numbers[:, Column.CHANNELS] = self.num_channels
        numbers[:, Column.START : Column.RANGES] = self.tensors
        numbers[:, Column.RANGES :] = self.ranges.reshape(len(self), 2 * len(self.fields))
        return numbers

    @cached_property
    def _places(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys())}

    def to_bytes(self) -> bytes:
        """The `.idx` file. Equal indexes give equal bytes."""
        arrays = {name: getattr(self, name) for name in _COLUMNS}
        metadata = {
            "headrace_index": str(FORMAT_VERSION),
            "shard": self.shard,
            "num_bytes": str(self.num_bytes),
            "sha256": self.sha256,
            "input_digest": self.input_digest,
            "fields": "\n".join(self.fields),
            "tensor_dtype": self.tensor_dtype,
            **{_NOTE_PREFIX + name: text for name, text in self.notes.items()},
        }
        return tables.pack(arrays, metadata, has_checksum=True)

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ShardIndex":
        """Read an `.idx` file; arrays are read-only views of `blob`.

        Raises:
            FormatError: not an index, cut off or damaged, or of a newer format.
        """
        arrays, metadata = tables.unpack(blob, name)
        if metadata.get("headrace_index") != str(FORMAT_VERSION):
            found = metadata.get("headrace_index", "none")
            raise FormatError(f"{name}: index format {found}, this version reads {FORMAT_VERSION}; rebuild the index")
        try:
            return cls(
                shard=metadata["shard"],
                num_bytes=int(metadata["num_bytes"]),
                sha256=metadata["sha256"],
                input_digest=metadata["input_digest"],
                fields=tuple(metadata["fields"].split("\n")) if metadata["fields"] else (),
                tensor_dtype=metadata["tensor_dtype"],
                notes={
                    key.removeprefix(_NOTE_PREFIX): text
                    for key, text in metadata.items()
                    if key.startswith(_NOTE_PREFIX)
                },
                **{column: arrays[column] for column in _COLUMNS},
            )
        except (KeyError, ValueError) as error:
            raise FormatError(f"{name}: damaged index ({error!r}); remove it and build again") from error


_COLUMNS = ("key_bytes", "key_offsets", "ranges", "num_frames", "sample_rate_hz", "num_channels", "tensors")
_NOTE_PREFIX = "note:"


def index_name(shard: str) -> str:
    """File name of the index that lies beside a shard."""
    return shard.removesuffix(".tar") + INDEX_SUFFIX


def build_index(  # noqa: PLR0913 - one argument per fact of the header
    entries: Sequence[SampleEntry],
    *,
    shard: str,
    num_bytes: int,
    sha256: str = "",
    input_digest: str = "",
    tensor_dtype: str = "",
    notes: dict[str, str] | None = None,
) -> ShardIndex:
    """Columns from entries; the fields are ordered by name."""
    fields = tuple(sorted({name for entry in entries for name in entry.ranges}))
    keys = [entry.key.encode(errors=_NAME_ERRORS) for entry in entries]
    absent = (ABSENT, ABSENT)
    ranges = [[entry.ranges.get(name, absent) for name in fields] for entry in entries]
    tensors = [entry.tensor or (ABSENT,) * 4 for entry in entries]
    return ShardIndex(
        shard=shard,
        num_bytes=num_bytes,
        sha256=sha256,
        input_digest=input_digest,
        fields=fields,
        key_bytes=np.frombuffer(b"".join(keys), np.uint8),
        key_offsets=np.cumsum([0, *map(len, keys)], dtype=np.int64),
        ranges=np.array(ranges, np.int64).reshape(len(entries), len(fields), 2),
        num_frames=np.array([entry.num_frames for entry in entries], np.int64),
        sample_rate_hz=np.array([entry.sample_rate_hz for entry in entries], np.int32),
        num_channels=np.array([entry.num_channels for entry in entries], np.int16),
        tensors=np.array(tensors, np.int64).reshape(len(entries), 4),
        tensor_dtype=tensor_dtype,
        notes=notes or {},
    )


def group_members(members: Iterator[Member] | Sequence[Member], shard: str) -> Iterator[SampleEntry]:
    """Samples of a tar by WebDataset's rule: neighbouring members with the same key are one sample.

    Raises:
        FormatError: a key comes back after another one (readers would silently split that sample), or a field is
            twice in one sample.
    """
    seen: set[str] = set()
    key, ranges = "", dict[str, tuple[int, int]]()
    for member in members:
        match = _KEY_AND_FIELD.match(member.name)
        if match is None or _META_MEMBER.search(member.name):
            continue
        if match[1] != key:
            if ranges:
                yield SampleEntry(key, ranges)
            key, ranges = match[1], {}
            if key in seen:
                raise FormatError(
                    f"{shard}: the files of sample {key!r} are not neighbours; write the shard again, sorted"
                )
            seen.add(key)
        name = match[2].lower()
        if name in ranges:
            raise FormatError(f"{shard}: sample {key!r} has two fields {name!r}")
        ranges[name] = (member.start, member.stop)
    if ranges:
        yield SampleEntry(key, ranges)


def payload(file: BinaryIO, span: tuple[int, int]) -> bytes:
    """The bytes of one field from an open tar."""
    file.seek(span[0])
    return file.read(span[1] - span[0])
