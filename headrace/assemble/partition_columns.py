"""Brings the columns of a partition up to date with its audio shards.

There is one `.columns` file for each audio shard that has samples, with a row for each sample in the shard's order. The
values come from a `ColumnValues`: `column_values` has one for the user's metadata and the catalog's facts, and one for
a table that was joined. A file is written again if its rows or the keys of its shard changed, not if the audio did.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Protocol

from headrace.assemble.build_reasons import BuildReason
from headrace.assemble.update import PartitionBuild, PartitionTarget, bring_up_to_date
from headrace.errors import BuildError
from headrace.format.beside.column_files import publish_columns, published_columns
from headrace.format.beside.column_table import Column, ColumnTable, keys_digest
from headrace.format.beside.labels import labels_of, text_columns
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.made_by import MadeShards
from headrace.format.manifests.manifests import (
    Manifest,
    ManifestRejection,
    NumberedManifest,
    ShardEntry,
    bucket_of,
    newest_manifest,
    sequence_of,
    split_of,
)
from headrace.format.shards.writer import ShardPlace
from headrace.stores.storage import Storage

COLUMNS_FORMAT = 1

_KEPT_BYTES = 64 << 20  # files that are planned and not written yet; beyond this, they are made a second time


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """Settings that decide columns together with the audio shards and rows of a partition: only the format."""

    def wanted(self, source: str) -> str:
        """`Manifest.wanted` of up-to-date columns, given the result of `columns_source`."""
        return hashlib.sha256(f"columns {COLUMNS_FORMAT}\n{source}".encode()).hexdigest()

    def reasons(self, found: Manifest, source: str) -> Mapping[BuildReason, bool]:
        """See `headrace.assemble.build_reasons.Settings`."""
        (audio, rows), (of_audio, of_rows) = source_parts(source), source_parts(found.source)
        is_other = of_rows != rows or found.wanted != self.wanted(found.source)
        return {BuildReason.AUDIO: of_audio != audio, BuildReason.ROWS: is_other}


def columns_source(audio: str, rows: str) -> str:
    """`Manifest.source` of columns: digest of the audio manifest, and digest of the rows of the partition."""
    return f"{audio} {rows}"


def source_parts(source: str) -> tuple[str, str]:
    """The two digests of a `columns_source`."""
    audio, _, rows = source.partition(" ")
    return audio, rows


class ColumnValues(Protocol):
    """The rows of a partition that are joined to its samples.

    Attributes:
        are_computed: whether columns depend on their audio shard and on the digest of rows alone, and take long. A file
            is then known by these two, and its columns are asked for only if it does not exist.
    """

    are_computed: ClassVar[bool]

    def columns(self, index: ShardIndex) -> tuple[Column, ...]:
        """The columns of the samples of one audio shard, in its order; names and types are those of every shard."""

    def left_over(self) -> tuple[ManifestRejection, ...]:
        """The rows that belong to no sample of the shards that `columns` was asked for."""


def build_column_partition(  # noqa: PLR0913, PLR0917 - the parts of a build, and who watches it
    partition: str,
    rows: str,
    values: Callable[[], ColumnValues],
    audio: Storage,
    storage: Storage,
    progress: Callable[[int], None] = lambda num_samples: None,  # noqa: ARG005
    labels: tuple[str, ...] = (),
) -> PartitionBuild:
    """Bring the columns of one partition up to date with its audio shards. No audio shard is read, only indexes.

    Args:
        partition: for example `train-0003`.
        rows: digest of the rows of the partition; with another digest, the rows are joined again.
        values: reads the rows; called only if something has to be joined.
        audio: the folder of audio shards.
        storage: the folder of this set of columns.
        progress: called with a number of samples each time this many are done.
        labels: columns of text whose distinct values the manifest has.

    Raises:
        BuildError: the audio shards do not exist, or see `bring_up_to_date`.
        ConfigError: a value does not fit the type of its column, or there is no column of text with labels.
    """
    source = newest_manifest(audio, partition)
    if source is None:
        raise BuildError(f"{partition}: no audio shards in {audio.uri}; build the audio shards of this partition first")
    recipe = _ColumnsRecipe(source, rows, values, audio, storage, progress, labels)
    return bring_up_to_date(recipe, storage, partial(_stored, labels), progress)


@dataclass(frozen=True, slots=True)
class _Planned:
    """The columns that one audio shard should have."""

    audio: ShardEntry
    place: ShardPlace
    input_digest: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """A `.columns` file that exists."""

    name: str
    num_bytes: int
    num_rows: int
    input_digest: str
    labels: Mapping[str, frozenset[str]]


@dataclass(slots=True)
class _ColumnsRecipe:
    """Plans and writes the columns of one partition; a `ShardRecipe`.

    Attributes:
        source: the audio manifest that the columns belong to.
        rows: digest of the rows of the partition.
        values: reads the rows.
        audio: the folder of audio shards.
        storage: the folder of this set of columns.
        progress: called with a number of samples each time this many are written.
        columns_of_labels: columns of text whose distinct values the manifest has.
    """

    source: NumberedManifest
    rows: str
    values: Callable[[], ColumnValues]
    audio: Storage
    storage: Storage
    progress: Callable[[int], None]
    columns_of_labels: tuple[str, ...] = ()
    _values: ColumnValues | None = None
    _kept: dict[str, ColumnTable] = field(default_factory=dict)  # of planned files, by audio shard

    @property
    def target(self) -> PartitionTarget:
        """See `ShardRecipe`."""
        source = columns_source(self.source.digest, self.rows)
        return PartitionTarget(self.source.manifest.partition, ColumnSettings().wanted(source), source, {})

    def plan(self, previous: NumberedManifest | None) -> list[_Planned]:  # noqa: ARG002
        """See `ShardRecipe`: one file for each audio shard that has samples."""
        partition = self.source.manifest.partition
        split, bucket = split_of(partition), bucket_of(partition)
        self._values, self._kept = self.values(), {}
        room, plans = _KEPT_BYTES, []
        for shard in self.source.manifest.shards:
            if shard.num_samples:
                place = ShardPlace(split, bucket, sequence_of(shard.name))
                if self._values.are_computed:
                    plans.append(_Planned(shard, place, self._digest(place, f"{shard.name}\n{self.rows}".encode())))
                    continue
                table = self._table(self._values, shard.name, place)
                plans.append(_Planned(shard, place, table.input_digest))
                room -= sum(column.values.nbytes + column.offsets.nbytes + len(column) for column in table.columns)
                if room > 0:
                    self._kept[shard.name] = table
        return plans

    def planned_keys(self, plans: Sequence[_Planned]) -> bytes:  # noqa: ARG002
        """See `ShardRecipe`: none, because the audio shards decide which samples share a file."""
        return b""

    def write(self, plans: Sequence[_Planned]) -> dict[str, _Stored]:
        """See `ShardRecipe`."""
        assert self._values is not None  # it was planned
        written = {}
        for plan in plans:
            table = self._kept.pop(plan.audio.name, None) or self._table(self._values, plan.audio.name, plan.place)
            table = replace(table, input_digest=plan.input_digest)
            name, num_bytes = publish_columns(self.storage, plan.place, table)
            written[plan.input_digest] = _Stored(
                name, num_bytes, len(table), plan.input_digest, labels_of(table, self.columns_of_labels)
            )
            self.progress(len(table))
        return written

    def entry(self, plan: _Planned, stored: _Stored) -> ShardEntry:
        """See `ShardRecipe`. The length in seconds is that of the audio."""
        return ShardEntry(
            name=stored.name,
            num_bytes=stored.num_bytes,
            num_samples=stored.num_rows,
            num_frames=0,
            seconds=plan.audio.seconds,
            input_digest=plan.input_digest,
            num_planned=stored.num_rows,
        )

    def rejected(self, stored: Sequence[_Stored]) -> tuple[ManifestRejection, ...]:  # noqa: ARG002
        """See `ShardRecipe`: the rows of the partition without a sample, whose recordings were rejected."""
        return () if self._values is None else self._values.left_over()

    def labels(self, stored: Sequence[_Stored]) -> dict[str, tuple[str, ...]]:
        """See `ShardRecipe`: the distinct values of all files."""
        return {
            name: tuple(sorted(frozenset[str]().union(*(one.labels[name] for one in stored))))
            for name in self.columns_of_labels
        }

    def made(self, stored: Sequence[_Stored]) -> tuple[MadeShards, ...]:  # noqa: ARG002
        """See `ShardRecipe`: none, for columns."""
        return ()

    def lengths(self, stored: Sequence[_Stored]) -> None:
        """See `ShardRecipe`: rows of columns have no length."""

    def _table(self, values: ColumnValues, shard: str, place: ShardPlace) -> ColumnTable:
        """The columns of one audio shard. Their digest covers names, types, values and keys, and the place."""
        index = read_index(self.audio, shard)
        columns, keys = values.columns(index), keys_digest(index.keys())
        table = ColumnTable(columns, len(index), keys, "")
        return replace(table, input_digest=self._digest(place, table.to_bytes()))

    def _digest(self, place: ShardPlace, content: bytes) -> str:
        return hashlib.sha256(f"columns {COLUMNS_FORMAT} {place.sequence}\n".encode() + content).hexdigest()


def _stored(labels: Sequence[str], storage: Storage, name: str, num_bytes: int) -> _Stored | None:
    table = published_columns(storage, name, num_bytes)
    if table is None or not set(labels).issubset(text_columns(table)):  # then it is of other rows
        return None
    return _Stored(name, num_bytes, len(table), table.input_digest, labels_of(table, labels))
