"""The catalog's rows divided into partitions: which recordings each holds, how much, and its fingerprint.

Owns the step from columns to `Recording` values. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog_tables import AUDIO_SCHEMA
from headrace.config import DatasetConfig
from headrace.errors import ConfigError
from headrace.fingerprints import combined_digest
from headrace.metadata_columns import metadata_columns, metadata_dicts
from headrace.plan import Layout, assign_partitions
from headrace.recordings import Recording

PARTITION = "partition"
_GROUPS_AT_ONCE = 16  # partitions whose digests are Python values at a time


@dataclass(frozen=True, slots=True)
class Work:
    """How much a partition holds, for a progress bar: samples, and the seconds of their sources."""

    num_samples: int
    seconds: float


def with_partitions(recordings: pl.DataFrame, layout: Layout, group_by: str | None) -> pl.DataFrame:
    """The recordings table with one more column, `partition`.

    A recording's group is its value of the metadata column `group_by`; without the column's name, or where the value
    is missing, its path.

    Raises:
        ConfigError: there is no such metadata column.
    """
    groups = recordings["path"]
    if group_by is not None and recordings.height:
        stored = {user: column for column, user in metadata_columns(recordings).items()}
        if group_by not in stored:
            raise ConfigError(f"group_by: no metadata column {group_by!r}; there are {sorted(stored) or 'none'}")
        column = recordings[stored[group_by]]
        if column.dtype.is_nested():
            raise ConfigError(
                f"group_by: the metadata column {group_by!r} holds lists or objects; name one of single values"
            )
        groups = column.cast(pl.String).fill_null(groups)
    return recordings.with_columns(pl.Series(PARTITION, assign_partitions(groups, layout), dtype=pl.String))


def fingerprints(recordings: pl.DataFrame, layout: Layout) -> dict[str, str]:
    """Fingerprint of every partition of the layout, empty ones too; needs `partition` and `recording_digest`."""
    rows = recordings.group_by(PARTITION).agg("recording_digest").iter_rows(buffer_size=_GROUPS_AT_ONCE)
    found = {partition: combined_digest(sorted(digests)) for partition, digests in rows}
    return {partition: found.get(partition) or combined_digest(()) for partition in layout.partition_keys()}


def recordings_of(rows: pl.DataFrame) -> list[Recording]:
    """The rows as values, in the table's order."""
    return list(_typed(rows))


def _typed(rows: pl.DataFrame) -> Iterator[Recording]:
    metadata = metadata_dicts(rows.drop(PARTITION, strict=False))
    for row, columns in zip(rows.iter_rows(named=True), metadata, strict=True):
        yield Recording(
            key=row["key"],
            path=row["path"],
            sha256=row["sha256"],
            num_bytes=row["num_bytes"],
            mtime_ns=row["mtime_ns"],
            info=AudioInfo(**{name: row[name] for name in AUDIO_SCHEMA}),
            digest=row["recording_digest"],
            metadata=columns,
        )


def partition_fingerprints(recordings: pl.DataFrame, config: DatasetConfig) -> dict[str, str]:
    """Fingerprint of every partition of the layout, in its order; empty partitions too.

    Raises:
        ConfigError: `group_by` names no metadata column.
    """
    layout = config.layout()
    return fingerprints(with_partitions(recordings, layout, config.group_by), layout)


def partition_recordings(recordings: pl.DataFrame, config: DatasetConfig, partition: str) -> list[Recording]:
    """The recordings of one partition, in the catalog's order. Raises as `partition_fingerprints`."""
    rows = with_partitions(recordings, config.layout(), config.group_by)
    return recordings_of(rows.filter(pl.col(PARTITION) == partition))


def partition_work(recordings: pl.DataFrame, config: DatasetConfig) -> dict[str, Work]:
    """What each partition that has recordings is going to hold, within rounding where recordings are cut or resampled.

    Raises:
        ConfigError: `group_by` names no metadata column.
    """
    length = config.audio.segment_seconds
    segments = pl.lit(1) if length is None else (pl.col("duration_seconds") / length).ceil().clip(1)
    rows = (
        with_partitions(recordings, config.layout(), config.group_by)
        .group_by(PARTITION)
        .agg(
            segments.sum().cast(pl.Int64).alias("samples") if length else pl.len(),
            pl.col("duration_seconds").sum(),
        )
    )
    return {partition: Work(num_samples, seconds) for partition, num_samples, seconds in rows.iter_rows()}
