"""The catalog's rows as a build sees them: typed values, divided into partitions.

Owns the step from columns to `Recording` values and the fingerprint of each partition. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog_digests import combined_digest
from headrace.catalog_tables import AUDIO_SCHEMA
from headrace.errors import ConfigError
from headrace.metadata_columns import metadata_columns, metadata_dicts
from headrace.plan import Layout, assign_partitions

PARTITION = "partition"
_GROUPS_AT_ONCE = 16  # partitions whose digests are Python values at a time


@dataclass(frozen=True, slots=True)
class Recording:
    """One source file that becomes samples.

    Attributes:
        key: its key; a single sample has the same.
        path: relative to the source root.
        sha256: digest of the file's bytes, hex.
        num_bytes: size of the file when it was scanned.
        mtime_ns: its time of change then.
        info: what its header says.
        digest: of everything that can reach a shard.
        metadata: the user's columns, as JSON values.
    """

    key: str
    path: str
    sha256: str
    num_bytes: int
    mtime_ns: int
    info: AudioInfo
    digest: str
    metadata: dict[str, Any]


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
        groups = recordings[stored[group_by]].cast(pl.String).fill_null(groups)
    return recordings.with_columns(pl.Series(PARTITION, assign_partitions(groups, layout), dtype=pl.String))


def fingerprints(recordings: pl.DataFrame, layout: Layout) -> dict[str, str]:
    """Fingerprint of every partition of the layout, empty ones too; needs `partition` and `recording_digest`."""
    rows = recordings.group_by(PARTITION).agg("recording_digest").iter_rows(buffer_size=_GROUPS_AT_ONCE)
    found = {partition: _fingerprint(digests) for partition, digests in rows}
    return {partition: found.get(partition) or _fingerprint(()) for partition in layout.partition_keys()}


def fingerprint_of(recordings: Sequence[Recording]) -> str:
    """Fingerprint of the partition that holds just these recordings."""
    return _fingerprint([recording.digest for recording in recordings])


def _fingerprint(digests: Sequence[str]) -> str:
    return combined_digest(pl.Series(digests, dtype=pl.String))


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
