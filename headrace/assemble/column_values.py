"""The rows that are joined to the samples of a partition: the metadata set, and tables joined by key or path."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl

from headrace.assemble.samples import Planned, planned_samples
from headrace.audio import AudioFormat, Segment
from headrace.catalog.rows.column_types import typed_columns
from headrace.catalog.rows.metadata_columns import metadata_columns
from headrace.catalog.rows.recordings import Recording
from headrace.catalog.stored.partitions import recordings_of
from headrace.errors import BuildError
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec
from headrace.format.indexes.index import ShardIndex
from headrace.format.manifests.manifests import ManifestRejection, split_of
from headrace.format.rejects import RejectReason

FACTS = (
    ColumnSpec("key", ColumnKind.STRING, is_fact=True),
    ColumnSpec("path", ColumnKind.STRING, is_fact=True),
    ColumnSpec("split", ColumnKind.STRING, is_fact=True),
    ColumnSpec("start_seconds", ColumnKind.FLOAT, is_fact=True),
    ColumnSpec("duration_seconds", ColumnKind.FLOAT, is_fact=True),
    ColumnSpec("sample_rate_hz", ColumnKind.INT, is_fact=True),
    ColumnSpec("num_channels", ColumnKind.INT, is_fact=True),
)
"""The facts of the catalog that the set `metadata` has of every sample."""


@dataclass(frozen=True, slots=True)
class MetadataValues:
    """The user's metadata and the catalog's facts of one partition; a `ColumnValues`.

    Attributes:
        partition: for example `train-0003`.
        recordings: the partition's recordings table in the catalog.
        planned: its samples, see `headrace.assemble.samples.planned_samples`.
        rows: key of a recording → its row in the table.
    """

    partition: str
    recordings: pl.DataFrame
    planned: Planned
    rows: Mapping[str, int]
    are_computed: ClassVar[bool] = False

    @classmethod
    def of(cls, partition: str, recordings: pl.DataFrame, audio: AudioFormat) -> "MetadataValues":
        """The values of a partition whose recordings table was read from the catalog."""
        planned, _ = planned_samples(recordings_of(recordings), audio)
        columns = metadata_columns(recordings)
        names = sorted(columns, key=lambda column: columns[column])
        rows = {key: row for row, key in enumerate(recordings["key"])}
        return cls(partition, recordings.select(names).rename(columns), planned, rows)

    def columns(self, index: ShardIndex) -> tuple[Column, ...]:
        """See `ColumnValues`: the facts, then the user's columns by name."""
        keys = index.keys()
        if unknown := [key for key in keys if key not in self.planned]:
            raise BuildError(
                f"{index.shard}: the catalog has no sample {unknown[0]!r}, so these shards are of another catalog; "
                "build the audio shards of this partition first"
            )
        found = [self.planned[key] for key in keys]
        rates = index.sample_rate_hz.tolist()
        facts = (
            keys,
            [recording.path for recording, _ in found],
            [split_of(self.partition)] * len(keys),
            [_start_seconds(*sample, rate) for sample, rate in zip(found, rates, strict=True)],
            [frames / rate for frames, rate in zip(index.num_frames.tolist(), rates, strict=True)],
            rates,
            index.num_channels.tolist(),
        )
        own = tuple(Column.of(spec, values) for spec, values in zip(FACTS, facts, strict=True))
        return own + typed_columns(self.recordings, [self.rows[recording.key] for recording, _ in found])

    def left_over(self) -> tuple[ManifestRejection, ...]:
        """See `ColumnValues`: none, because the manifest of the audio has the rejected recordings."""
        return ()


def _start_seconds(recording: Recording, segment: Segment, rate_hz: int) -> float:
    """Start of a sample in its file: a span at the file's own rate, a segment at the shard's."""
    return recording.span.start_frame / recording.info.sample_rate_hz + segment.start_frame / rate_hz


def paths_of_samples(recordings: Sequence[Recording], audio: AudioFormat) -> dict[str, str]:
    """Key of each sample of some recordings → path of its recording."""
    planned, _ = planned_samples(recordings, audio)
    return {key: recording.path for key, (recording, _) in planned.items()}


@dataclass(slots=True)
class TableValues:
    """The rows of a joined table that concern one partition; a `ColumnValues`.

    Attributes:
        table: the user's columns.
        names: the key or path of each row.
        paths: key of a sample → path of its recording, for a table that joins by path; None for one that joins by key.
    """

    table: pl.DataFrame
    names: Sequence[str]
    paths: Mapping[str, str] | None
    are_computed: ClassVar[bool] = False
    _rows: dict[str, int] = field(init=False)
    _used: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Find the row of each name."""
        self._rows = {name: row for row, name in enumerate(self.names)}

    def columns(self, index: ShardIndex) -> tuple[Column, ...]:
        """See `ColumnValues`. Samples without a row have nulls."""
        keys = index.keys()
        names = keys if self.paths is None else [self.paths.get(key, "") for key in keys]
        self._used.update(names)
        return typed_columns(self.table, [self._rows.get(name) for name in names])

    def left_over(self) -> tuple[ManifestRejection, ...]:
        """See `ColumnValues`: rows whose recording was rejected when its audio was decoded."""
        return tuple(self._left_over())

    def _left_over(self) -> Iterator[ManifestRejection]:
        for name in self.names:
            if name not in self._used:
                key, path = (name, "") if self.paths is None else ("", name)
                reason = f"the audio of {name} was rejected, so this row has no sample"
                yield ManifestRejection(path, RejectReason.NO_SAMPLE.value, reason, key)
