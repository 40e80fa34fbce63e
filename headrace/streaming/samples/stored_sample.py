"""Samples before they are decoded: which shard each is in, and at which bytes.

A `StoredSample` is one sample in one shard. A `BatchRow` is such a sample with the latents that are joined to it from
other folders. `stream_reader` makes them from the shards' indexes; nothing is decoded here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from headrace.checksums import crc32
from headrace.errors import ConfigError, IntegrityError, SampleError
from headrace.format.indexes.audio_fields import AUDIO
from headrace.format.indexes.index import ABSENT, LONG_BYTES
from headrace.format.indexes.seek_table import StoredPoints
from headrace.format.tars.member_names import JSON_FIELD, LATENT_FIELD, audio_field, members_of
from headrace.format.tensors.tensors import TensorPlace
from headrace.streaming.cache.coalesce import Span
from headrace.streaming.cache.opened import OpenShard, StoredField, fields_of
from headrace.streaming.rasters import Raster
from headrace.streaming.samples.fields import is_taken
from headrace.streaming.shards.access import ShardAccess
from headrace.streaming.shards.column_reader import ColumnRow


class StoredAudio(NamedTuple):
    """One audio field of a sample in its shard.

    Attributes:
        name: name of the field in samples and batches.
        column: column of its member.
        span: byte range.
        is_flac: whether the name of its member says so.
        num_frames: stored frames, of this field; -1 if unknown.
        num_channels: 0 if unknown.
    """

    name: str
    column: int
    span: Span
    is_flac: bool
    num_frames: int
    num_channels: int

    @property
    def is_long(self) -> bool:
        """Whether it is read in parts where samples are cut."""
        return self.span[1] - self.span[0] > LONG_BYTES

    def cut(self, start: int, blob: memoryview) -> memoryview:
        """The bytes of the field, from `blob`, which begins at byte `start` of the shard."""
        return blob[self.span[0] - start : self.span[1] - start]


@dataclass(frozen=True, slots=True)
class AudioColumns:
    """The columns of a shard that may hold an audio field, and whether each is FLAC.

    The field of a sample is in the first of them that the sample has.
    """

    name: str
    columns: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """Which fields the samples of a shard have: a column for each, as in the shard's index.

    Attributes:
        names: names of all columns.
        audio: the audio fields: the named ones of the index, or else the one field `audio`; empty without audio.
        audio_names: names of the audio fields.
        latents: column of the latents; None in a shard without latents.
        json: column of the JSON; None in a shard without JSON.
        extra: name and column of each field that is neither latents nor JSON, nor a named audio field.
        beside_latents: all columns except that of the latents.
        taken: names among `extra` that a batch uses for its own fields.
        is_narrowed: whether only some fields are wanted (`chosen_fields`).
    """

    names: tuple[str, ...]
    audio: tuple[AudioColumns, ...]
    audio_names: tuple[str, ...]
    latents: int | None
    json: int | None
    extra: tuple[tuple[str, int], ...]
    beside_latents: tuple[int, ...]
    taken: frozenset[str]
    is_narrowed: bool = False


@lru_cache(maxsize=256)
def field_columns(fields: tuple[str, ...], audio_fields: tuple[str, ...] = ()) -> FieldColumns:
    """The columns of a shard whose samples have these fields, of which some are named audio fields."""
    members = {name: members_of(name, fields) for name in audio_fields} or {AUDIO: _unnamed_audio(fields)}
    named = {member for name in audio_fields for member in members[name]}
    audio = tuple(
        AudioColumns(name, tuple((fields.index(m), m.rpartition(".")[2] == "flac") for m in found))
        for name, found in members.items()
        if found or audio_fields
    )
    return FieldColumns(
        names=fields,
        audio=audio,
        audio_names=tuple(field.name for field in audio),
        latents=fields.index(LATENT_FIELD) if LATENT_FIELD in fields else None,
        json=fields.index(JSON_FIELD) if JSON_FIELD in fields else None,
        extra=tuple((name, c) for c, name in enumerate(fields) if name not in {LATENT_FIELD, JSON_FIELD} | named),
        beside_latents=tuple(c for c, name in enumerate(fields) if name != LATENT_FIELD),
        taken=frozenset(name for name in fields if is_taken(name)),
    )


def _unnamed_audio(fields: tuple[str, ...]) -> list[str]:
    """The members that may hold the audio of a sample without named audio fields, the plainest first."""
    audio: list[str] = []
    while (found := audio_field(tuple(name for name in fields if name not in audio))) is not None:
        audio.append(found)
    return audio


@dataclass(slots=True)
class StoredSample:
    """One sample in one shard, ready to be read.

    Attributes:
        access: the shards of the folder that the sample is in.
        shard: the shard's number there.
        file: the open shard; None if it could not be opened (`fault` says why).
        key: the sample's `__key__`.
        columns: the shard's fields, in the order of `spans` and `crc32`.
        num_frames: stored frames, of the shortest audio field; -1 if unknown.
        sample_rate_hz: 0 if unknown or not audio.
        num_channels: 0 if unknown or not audio; of the first audio field.
        tensor: where the raw latents are, of one output; None if the sample has no raw latents.
        spans: start and stop of each field, column after column; `ABSENT` for a field that the sample lacks.
        crc32: CRC-32 of each field, column after column; `ABSENT` for a field that the sample lacks, or if unknown.
        tensor_dtype: name of the raw latents' dtype.
        latent_rate_hz: latent frames in a second; 0 if unknown or no latents.
        fault: why the shard could not be opened.
        has_time_axis: for joined latents, whether their frames follow each other in time; False for folders in which
            no sample has more than one frame, such as a vector for each clip.
        rejection: why the sample's latents were rejected when they were made; empty for any other sample.
        audio_facts: frames and channels of each named audio field; empty without named audio fields.
        tensor_crc32: CRC-32 of the raw latents; -1 if unknown.
        output: number of the output among those of the folder.
        is_choice: whether its rows are vectors of which one is drawn.
        is_of_audio: whether audio is read of other samples of its shards.
    """

    access: ShardAccess
    shard: int
    file: OpenShard | None
    key: str
    columns: FieldColumns
    num_frames: int
    sample_rate_hz: int
    num_channels: int
    tensor: TensorPlace | None
    spans: list[int]
    crc32: list[int]
    tensor_dtype: str
    latent_rate_hz: float
    fault: OSError | None = None
    has_time_axis: bool = True
    rejection: str = ""
    audio_facts: Sequence[Sequence[int]] = ()
    tensor_crc32: int = ABSENT
    output: int = 0
    is_choice: bool = False
    is_of_audio: bool = False
    _audio: tuple[StoredAudio, ...] | None = None

    @property
    def shard_name(self) -> str:
        """URI of the shard, for messages: shards of several streams may have the same path."""
        return f"{self.access.shards.storage.uri}/{self.access.name(self.shard)}"

    @property
    def called(self) -> str:
        """The sample's name in messages: shard and key."""
        return f"{self.shard_name}: sample {self.key!r}"

    def opened(self) -> OpenShard:
        """The open shard. Raises `SampleError` if it could not be opened, with the reason."""
        if self.file is None:
            raise SampleError(str(self.fault)) from self.fault
        return self.file

    def fields(self) -> list[StoredField]:
        """All fields of the sample in its shard."""
        return fields_of(self.key, self.columns.names, self.spans, self.crc32)

    def fields_at_once(self) -> list[StoredField]:
        """The fields that are fetched before the sample is decoded: all but those that are read in parts."""
        long = {field.span for field in self.audio() if self.in_parts(field)}
        return [field for field in self.fields() if (field.start, field.stop) not in long]

    def in_parts(self, field: StoredAudio) -> bool:
        """Whether an audio field is read in parts."""
        return self.access.reads_cuts and field.is_long

    def seek_points(self, field: StoredAudio) -> StoredPoints | None:
        """Seek points of an audio field, which only indexes of whole tars have."""
        index = self.access.index(self.shard)
        row = index.find(self.key) if index.seeks is not None else None
        return None if row is None else index.seek_points(row, field.name)

    def payload(self, field: StoredAudio, start: int, blob: memoryview) -> memoryview:
        """The bytes of an audio field: from `blob`, which begins at byte `start` of the shard, unless it is in parts.

        Raises:
            IntegrityError: the shard ends before, or what a store sent is damaged.
        """
        if not self.in_parts(field):
            return field.cut(start, blob)
        if self.opened().is_compared:  # pieces of a store: a whole field is compared with its checksum
            self.file = self.access.open(self.shard, lambda: [self.fields()], patient=False)
        return self.opened().read(*field.span)

    def renew(self) -> bool:
        """Fetch the sample from its store if the cached shard is damaged. Returns whether it was fetched.

        Raises:
            StorageError: the store failed.
            IntegrityError: what the store sent is damaged, too.
        """
        found = self.access.renewed(self.shard, self.file, self.fields())
        self.file = found or self.file
        return found is not None

    def span(self, column: int | None) -> Span | None:
        """Byte range of a field; None if the sample lacks it."""
        if column is None or (start := self.spans[2 * column]) == ABSENT:
            return None
        return start, self.spans[2 * column + 1]

    def checked(self, column: int, data: memoryview) -> memoryview:
        """`data`, the bytes of a field, after its CRC-32 was checked, here or when the bytes were fetched.

        Raises:
            IntegrityError: the CRC-32 is not the one in the index.
        """
        wanted = ABSENT if self.opened().is_compared else self.crc32[column]
        if wanted != ABSENT and (found := crc32(data)) != wanted:
            raise IntegrityError(
                f"field {self.columns.names[column]!r}: CRC-32 {wanted:08x} expected, {found:08x} found: this copy of "
                "the shard is damaged; `headrace verify` lists what else is: copy the shard again"
            )
        return data

    def has_checksum(self, column: int) -> bool:
        """Whether the bytes of a field were compared when they were fetched, or `checked` compares them."""
        return self.opened().is_compared or self.crc32[column] != ABSENT

    def check_tensor(self, values: memoryview) -> None:
        """Compare all bytes of the raw latents with their CRC-32.

        Raises:
            IntegrityError: it is not the one in the index.
        """
        wanted = ABSENT if self.opened().is_compared else self.tensor_crc32
        if wanted != ABSENT and (found := crc32(values)) != wanted:
            raise IntegrityError(
                f"its latents: CRC-32 {wanted:08x} expected, {found:08x} found in {self.shard_name}: this copy of the "
                "shard is damaged; `headrace verify` lists what else is: copy the shard again"
            )

    def audio(self) -> tuple[StoredAudio, ...]:
        """The audio fields that the sample has, the first one leading; empty for a sample without audio."""
        if self._audio is None:
            facts = self.audio_facts or ((self.num_frames, self.num_channels),)
            pairs = zip(self.columns.audio, facts, strict=False)  # a shard of latents has no columns
            found = [self._audio_field(columns, *known) for columns, known in pairs]
            self._audio = tuple(field for field in found if field is not None)
        return self._audio

    def _audio_field(self, field: AudioColumns, num_frames: int, num_channels: int) -> StoredAudio | None:
        for column, is_flac in field.columns:
            if (span := self.span(column)) is not None:
                return StoredAudio(field.name, column, span, is_flac, num_frames, num_channels)
        return None

    def extra(self) -> Iterator[tuple[str, int, Span]]:
        """Fields other than audio, latents and JSON: name, column and byte range.

        Raises:
            ConfigError: a batch has a field of that name of its own.
        """
        if len(self.columns.extra) > (0 if self.audio_facts or not self.columns.audio else 1):
            audio = {found.span for found in self.audio()}
            for name, column in self.columns.extra:
                span = self.span(column)
                if span is not None and span not in audio:
                    if name in self.columns.taken:
                        raise ConfigError(
                            f"{self.called}: its file .{name} would become the field {name!r} of a batch, a name "
                            "that batches use themselves: rename such files in the tar"
                        )
                    yield name, column, span


class RowWindow(NamedTuple):
    """A window of a sample, in stored frames.

    Attributes:
        first: its first frame.
        num_frames: its frames.
        length: frames of a whole window; the last one of a sample may have fewer.
    """

    first: int
    num_frames: int
    length: int


class Clock(NamedTuple):
    """Length and rate of what windows and crops are measured in: audio, or else the first output of the latents.

    Attributes:
        num_frames: stored frames; -1 if unknown.
        rate_hz: frames per second; 0 if unknown.
        has_time_axis: whether a crop cuts it; False for vectors, and for latents that were rejected.
        others: other latents of the sample, read or not, at least the slowest output of each folder: a crop begins
            where a frame of the slowest of them does. None where a folder has none for the sample.
    """

    num_frames: int
    rate_hz: float
    has_time_axis: bool
    others: tuple[StoredSample | None, ...]


@dataclass(slots=True)
class BatchRow:
    """One sample with its joined latents.

    Attributes:
        primary: the sample in the stream's own folder.
        joined: the sample in each joined latents folder; None in a folder that lacks its key.
        position: row of the epoch.
        columns: the columns that are joined to the sample; None without columns.
        window: the window of the sample that the row is; None for the whole sample.
        rasters: names of fields, and the grids of events that they are.
        chosen_clock: the clock of a row of which only some fields are read.
    """

    primary: StoredSample
    joined: tuple[StoredSample | None, ...]
    position: int
    columns: ColumnRow | None = None
    window: RowWindow | None = None
    rasters: Sequence[tuple[str, Raster]] = ()
    chosen_clock: Clock | None = None

    @property
    def clock(self) -> Clock:
        """Length and rate of what windows and crops are measured in, whichever fields are read."""
        own, rate_hz = self.primary, self.primary.sample_rate_hz or self.primary.latent_rate_hz
        return self.chosen_clock or Clock(own.num_frames, rate_hz, own.has_time_axis, self.joined)

    @property
    def stored(self) -> tuple[StoredSample | None, ...]:
        """`primary`, then `joined`."""
        return (self.primary, *self.joined)
