"""The index of one shard: its samples, the byte range of each field in the tar, and the length of each sample.

`ShardIndex` is the content of one `.idx` file as columns. `index_files` parses and finds these files, `index_entries`
makes an index from a list of samples, and `indexing` makes one from a tar.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import ConfigError, FormatError
from headrace.format import tables
from headrace.format.indexes.seek_table import SeekTable, StoredPoints
from headrace.format.lazy import cached_property
from headrace.format.tars.member_names import AUDIO_FIELDS, audio_field, members_of
from headrace.format.tars.tar_names import TAR_SUFFIX, is_plain_tar
from headrace.format.tensors.outputs import Output, outputs_as_json
from headrace.format.tensors.tensors import TensorPlace
from headrace.format.typed_json import json_value

FORMAT_VERSION = 1
LONG_BYTES = 1 << 20
"""Audio of more bytes has seek points, and is read in parts where samples are cut."""
INDEX_SUFFIX = ".idx"
COLUMNS_SUFFIX = ".columns"
SHARD_SUFFIXES = (TAR_SUFFIX, COLUMNS_SUFFIX)
FRAME_RATE_NOTE = "frame_rate_hz"
"""The note of a latent shard with the number of latent frames per second."""
REFUSED_NOTE = "refused"
"""The note that lists, as JSON, the recordings or latents that were planned for a shard and rejected."""
VERSION_NOTE = "version"
"""The note with the version of the tar that an index was made from (`Storage.version`), where its digest is unknown."""
DIGEST_NOTE = "digest"
"""The note with the digest by which a snapshot of tars of others names the tar that an index is of."""
ABSENT = -1

NAME_ERRORS = "surrogateescape"
"""Error handler for decoding and encoding keys that are not UTF-8: as in tarfile, so that they survive."""
COLUMNS = (
    *("key_bytes", "key_offsets", "ranges", "crc32", "num_frames", "sample_rate_hz", "num_channels"),
    *("tensors", "tensor_crc32"),
)
"""The arrays of an `.idx` file: attributes of `ShardIndex`."""
AUDIO_COLUMN = "audio_facts"
"""The array that only indexes of shards with named audio fields have."""
NOTE_PREFIX = "note:"
"""Prefix of the names of notes in the metadata of an `.idx` file."""


class IndexRow(NamedTuple):
    """All numbers of one sample of an index.

    Attributes:
        num_frames: see `ShardIndex`.
        sample_rate_hz: see `ShardIndex`.
        num_channels: see `ShardIndex`.
        tensors: the raw tensor of each output; None where the sample has none.
        tensor_crc32: CRC-32 of the values of each; -1 where the sample has none, or if it was not computed.
        spans: start and stop of each field's byte range, field after field; -1 if the sample lacks the field.
        crc32: CRC-32 of each field; -1 if the sample lacks the field or the CRC-32 was not computed.
    """

    num_frames: int
    sample_rate_hz: int
    num_channels: int
    tensors: list[TensorPlace | None]
    tensor_crc32: list[int]
    spans: list[int]
    crc32: list[int]


class IndexedAudio(NamedTuple):
    """An audio field of one sample of an index.

    Attributes:
        member: the field in the tar, such as `flac` or `vocals.flac`.
        span: half-open byte range in the tar.
        num_frames: -1 if unknown.
        num_channels: 0 if unknown.
    """

    member: str
    span: tuple[int, int]
    num_frames: int
    num_channels: int


class IndexColumn(IntEnum):
    """Columns of `ShardIndex.numbers`: the numbers of `IndexRow`, with five columns for the first output.

    From `RANGES` on there are two columns for each field, then one column for the CRC-32 of each field, then five
    columns for each further output.
    """

    NUM_FRAMES = 0
    RATE = 1
    CHANNELS = 2
    START = 3
    STOP = 4
    TENSOR_FRAMES = 5
    WIDTH = 6
    TENSOR_CRC32 = 7
    RANGES = 8


@dataclass(frozen=True)
class ShardIndex:
    """All samples of one shard, as columns.

    Attributes:
        shard: file name of the tar.
        num_bytes: size of the tar.
        sha256: digest of the tar, hex; empty if it was not computed.
        input_digest: digest of what the shard was made from (see `headrace.assemble.audio`); empty for tars that
            Headrace did not build.
        fields: names of the fields; columns of `ranges`.
        key_bytes: uint8, all keys, UTF-8, end to end.
        key_offsets: int64 (n + 1,), where each key starts in `key_bytes`.
        ranges: int64 (n, num_fields, 2), half-open byte ranges in the tar; -1 if a sample lacks the field.
        crc32: int64 (n, num_fields), CRC-32 of each field; -1 if a sample lacks the field or it was not computed.
        num_frames: int64 (n,), PCM or latent frames; -1 if unknown.
        sample_rate_hz: int32 (n,); 0 if unknown or not audio.
        num_channels: int16 (n,); 0 if unknown or not audio.
        tensors: int64 (n, num_outputs, 4), byte range in the tar and shape (T, D) of the raw tensor of each output;
            -1 without a raw tensor. A vector (D,) has the shape (1, D).
        tensor_crc32: int64 (n, num_outputs), CRC-32 of the bytes of each raw tensor; -1 without one, or if it was not
            computed.
        audio_fields: names of the audio fields (`format.audio_fields`), the first one leading; empty for samples with
            the one field `audio`.
        audio_facts: int64 (n, num_audio_fields, 2), frames and channels of each audio field; -1 and 0 if unknown. None
            without named audio fields. `num_frames` is then the shortest, `num_channels` that of the first field.
        outputs: the outputs whose raw tensors the samples have, those with time first; `num_frames` counts the frames
            of the first. Empty without raw tensors.
        seeks: seek points of long audio files; None without such files, or if they were not looked for.
        notes: further strings by name: rejections, encoder, the audio shard that latents belong to.
    """

    shard: str
    num_bytes: int
    sha256: str
    input_digest: str
    fields: tuple[str, ...]
    key_bytes: np.ndarray[Any, np.dtype[np.uint8]]
    key_offsets: np.ndarray[Any, np.dtype[np.int64]]
    ranges: np.ndarray[Any, np.dtype[np.int64]]
    crc32: np.ndarray[Any, np.dtype[np.int64]]
    num_frames: np.ndarray[Any, np.dtype[np.int64]]
    sample_rate_hz: np.ndarray[Any, np.dtype[np.int32]]
    num_channels: np.ndarray[Any, np.dtype[np.int16]]
    tensors: np.ndarray[Any, np.dtype[np.int64]]
    tensor_crc32: np.ndarray[Any, np.dtype[np.int64]]
    outputs: tuple[Output, ...] = ()
    audio_fields: tuple[str, ...] = ()
    audio_facts: np.ndarray[Any, np.dtype[np.int64]] | None = None
    seeks: SeekTable | None = None
    notes: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.num_frames)

    @property
    def tensor_dtype(self) -> str:
        """Name of the dtype of the first output; empty without raw tensors."""
        return self.outputs[0].dtype if self.outputs else ""

    @cached_property
    def has_checksums(self) -> bool:
        """Whether each field of each sample has a CRC-32."""
        return bool((self.crc32[self.ranges[..., 0] != ABSENT] != ABSENT).all())

    @cached_property
    def latent_rate_hz(self) -> float:
        """Frames per second of the first output of the latents; 0 if unknown or without latents."""
        if FRAME_RATE_NOTE in self.notes:
            return self.number(FRAME_RATE_NOTE)
        return self.outputs[0].frame_rate_hz if self.outputs else 0.0

    def note(self, name: str) -> str:
        """A note that the writer of such a shard always leaves. Raises `FormatError` if it is missing."""
        if name not in self.notes:
            raise FormatError(f"{self.shard}: its index lacks the note {name!r}; {tables.WAY_OUT}")
        return self.notes[name]

    def number(self, name: str) -> float:
        """A note that is a finite number from 0 on. Raises `FormatError` if it is not."""
        try:
            found = float(self.note(name))
        except ValueError:
            found = math.nan
        if not 0 <= found < math.inf:
            raise FormatError(f"{self.shard}: the note {name!r} of its index is {self.notes[name]!r}; {tables.WAY_OUT}")
        return found

    @cached_property
    def rejections(self) -> dict[str, str]:
        """Key of each sample whose latents were rejected → the reason.

        The note also lists recordings and spans whose audio was rejected. The shard has no samples of these.

        Raises:
            FormatError: the note that lists them is damaged.
        """
        try:
            listed = json_value(self.notes.get(REFUSED_NOTE, "[]"))
            keys = set(self.keys()) if listed else ()
            return {row["key"]: str(row["reason"]) for row in listed if row.get("key") in keys}
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise FormatError(f"{self.shard}: damaged index ({error!r}); {tables.WAY_OUT}") from error

    @property
    def rejected(self) -> tuple[str, ...]:
        """Keys of the samples whose latents were rejected, sorted. Raises `FormatError` as `rejections`."""
        return tuple(sorted(self.rejections))

    @cached_property
    def lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """`num_frames`, but 0 for samples without audio whose latents were rejected, int64 (n,); -1 if unknown."""
        if not self.rejections:
            return self.num_frames
        is_rejected = np.array([key in self.rejections for key in self.keys()], np.bool_)
        return np.where(is_rejected & (self.sample_rate_hz == 0), 0, self.num_frames)

    @cached_property
    def rates_hz(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Frames per second of each sample, of those that `lengths` counts, float64 (n,); 0 if unknown."""
        return np.where(self.sample_rate_hz > 0, self.sample_rate_hz, self.latent_rate_hz)

    def key(self, i: int) -> str:
        """Key of sample `i`."""
        edges = self._key_edges
        return str(self._keys[edges[i] : edges[i + 1]], "utf-8", NAME_ERRORS)

    def keys(self) -> list[str]:
        """All keys, in the order of the tar."""
        return self.keys_of(range(len(self)))

    def keys_of(self, rows: Iterable[int]) -> list[str]:
        """Keys of these samples."""
        keys, edges = self._keys, self._key_edges
        return [str(keys[edges[i] : edges[i + 1]], "utf-8", NAME_ERRORS) for i in rows]

    def row(self, i: int) -> IndexRow:
        """All numbers of sample `i`, several times as fast as from the single columns."""
        num_frames, rate, channels, *rest = self.numbers[i].tolist()
        first_crc = 5 + 2 * len(self.fields)
        end = first_crc + len(self.fields)
        tensors = [rest[:5], *(rest[start : start + 5] for start in range(end, len(rest), 5))]
        places = [TensorPlace._make(tensor[:4]) if tensor[0] != ABSENT else None for tensor in tensors]
        checksums = [tensor[4] for tensor in tensors]
        return IndexRow(num_frames, rate, channels, places, checksums, rest[5:first_crc], rest[first_crc:end])

    def range_of(self, i: int, name: str) -> tuple[int, int] | None:
        """Half-open byte range of field `name` of sample `i`; None if the sample lacks the field."""
        if name not in self.fields:
            return None
        start, stop = (int(edge) for edge in self.ranges[i, self.fields.index(name)])
        return None if start == ABSENT else (start, stop)

    def audio_of(self, i: int, field_name: str = "") -> IndexedAudio | None:
        """An audio field of sample `i`, in whatever codec; None if the sample lacks it.

        Args:
            i: the sample.
            field_name: name of the audio field; empty for the first field, or the only one.

        Raises:
            ConfigError: the shard has no audio field of this name.
        """
        starts = zip(self.fields, self.ranges[i, :, 0].tolist(), strict=True)
        present = [name for name, start in starts if start != ABSENT]
        if self.audio_facts is None:
            self._check_audio_field(field_name, ("audio",))
            name, facts = audio_field(present), (int(self.num_frames[i]), int(self.num_channels[i]))
        else:
            wanted = field_name or self.audio_fields[0]
            self._check_audio_field(wanted, self.audio_fields)
            members = members_of(wanted, present)
            name, facts = next(iter(members), None), self.audio_facts[i, self.audio_fields.index(wanted)].tolist()
        span = None if name is None else self.range_of(i, name)
        return None if name is None or span is None else IndexedAudio(name, span, *facts)

    def audio_range(self, i: int, field_name: str = "") -> tuple[int, int] | None:
        """Half-open byte range of an audio field of sample `i`; None without it. See `audio_of`."""
        found = self.audio_of(i, field_name)
        return None if found is None else found.span

    def seek_points(self, i: int, field_name: str = "") -> StoredPoints | None:
        """Seek points of an audio field of sample `i`; None if there are none. See `audio_of`."""
        if self.seeks is None:
            return None
        number = self.audio_fields.index(field_name) if field_name in self.audio_fields else 0
        return self.seeks.points(i, number)

    @cached_property
    def audio_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Bytes of each audio field, int64 (n, num_audio_fields) or, without named ones, (n, 1); 0 if it is missing."""
        names = self.audio_fields or ("",)
        spans = [[self.audio_range(row, name) or (0, 0) for name in names] for row in range(len(self))]
        return np.diff(np.array(spans, np.int64).reshape(len(self), len(names), 2))[..., 0]

    def _check_audio_field(self, name: str, known: Sequence[str]) -> None:
        if name and name not in known:
            raise ConfigError(
                f"{self.shard}: no audio field {name!r}; the shard has {', '.join(known)}: correct latents.field in "
                "the data set's YAML, or build the audio shards first"
            )

    @property
    def audio_counts(self) -> dict[str, int]:
        """Extension → number of samples that have audio with this extension. Named audio fields count one by one."""
        counts = (self.ranges[..., 0] != ABSENT).sum(0).tolist()
        found: dict[str, int] = {}
        for name, count in zip(self.fields, counts, strict=True):
            extension = name.rpartition(".")[2]
            if extension in AUDIO_FIELDS:
                found[extension] = found.get(extension, 0) + count
        return found

    @cached_property
    def _keys(self) -> bytes:
        return self.key_bytes.tobytes()

    @cached_property
    def _key_edges(self) -> list[int]:
        return list(self.key_offsets.tolist())  # reading single numbers of an array costs more than making the key

    def find(self, key: str) -> int | None:
        """The row of the sample with this key; None if no sample has it."""
        return self._places.get(key)

    @cached_property
    def numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """All numbers of every sample, int64 (n, 7 + 3 * num_fields); see `IndexColumn`."""
        first_crc = IndexColumn.RANGES + 2 * len(self.fields)
        end, others = first_crc + len(self.fields), max(0, len(self.outputs) - 1)
        numbers = np.empty((len(self), end + 5 * others), np.int64)
        tensors = np.full((len(self), 1 + others, 5), ABSENT, np.int64)
        tensors[:, : len(self.outputs), :4] = self.tensors
        tensors[:, : len(self.outputs), 4] = self.tensor_crc32
        numbers[:, IndexColumn.NUM_FRAMES] = self.num_frames
        numbers[:, IndexColumn.RATE] = self.sample_rate_hz
        numbers[:, IndexColumn.CHANNELS] = self.num_channels
        numbers[:, IndexColumn.START : IndexColumn.RANGES] = tensors[:, 0]
        numbers[:, IndexColumn.RANGES : first_crc] = self.ranges.reshape(len(self), 2 * len(self.fields))
        numbers[:, first_crc:end] = self.crc32
        numbers[:, end:] = tensors[:, 1:].reshape(len(self), 5 * others)
        return numbers

    @cached_property
    def _places(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys())}

    def to_bytes(self) -> bytes:
        """The bytes of the `.idx` file; equal indexes give equal bytes. `index_files.parse_index` reads them."""
        arrays = {name: getattr(self, name) for name in COLUMNS}
        if self.audio_facts is not None:
            arrays[AUDIO_COLUMN] = self.audio_facts
        if self.seeks is not None:
            arrays |= self.seeks.arrays()
        metadata = {
            "headrace_index": str(FORMAT_VERSION),
            "shard": self.shard,
            "num_bytes": str(self.num_bytes),
            "sha256": self.sha256,
            "input_digest": self.input_digest,
            "fields": "\n".join(self.fields),
            "outputs": outputs_as_json(self.outputs),
            **({"audio_fields": "\n".join(self.audio_fields)} if self.audio_fields else {}),
            **{NOTE_PREFIX + name: text for name, text in self.notes.items()},
        }
        return tables.pack(arrays, metadata)


def index_name(shard: str) -> str:
    """File name of the index beside a shard."""
    return shard.removesuffix(TAR_SUFFIX) + INDEX_SUFFIX  # `TR.TAR.idx`: `TR.tar` may be in the same folder


def files_of_shard(shard: str) -> tuple[str, ...]:
    """The files of a shard: a tar and its index, or one file of columns."""
    return (shard, index_name(shard)) if is_plain_tar(shard) else (shard,)
