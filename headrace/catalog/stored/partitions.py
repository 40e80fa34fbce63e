"""Divides the recordings of a catalog into partitions. Pure.

Recordings of one group are always in one partition. The module also makes `Recording` values from the catalog's rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog.judging.exclusions import SEPARATOR
from headrace.catalog.rows.field_files import parsed_field_files
from headrace.catalog.rows.metadata_columns import check_group_by, metadata_columns, metadata_dicts
from headrace.catalog.rows.recordings import Recording, parsed_channels
from headrace.catalog.rows.schemas import AUDIO_SCHEMA, contents
from headrace.catalog.stored.header import CatalogHeader
from headrace.config.source import Duplicates

PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class PartitionSize:
    """Size of a partition, for a progress bar: number of samples, and seconds of audio in their sources."""

    num_samples: int
    seconds: float


def group_names(recordings: pl.DataFrame, group_by: str | None, duplicates: Duplicates) -> pl.Series:
    """The name of each recording's group.

    The name is the recording's value in the metadata column `group_by`, or its path if `group_by` is None or the value
    is missing. With `Duplicates.GROUP`, groups that hold the same bytes are merged, see `merged_groups`.

    Raises:
        ConfigError: `group_by` does not name a metadata column.
    """
    groups = own_groups(recordings, group_by)
    if duplicates != Duplicates.GROUP:
        return groups
    are_shared = contents(recordings).is_duplicated()  # the others do not merge groups
    return groups.replace(merged_names([recordings.filter(are_shared)], group_by))


def merged_names(tables: Iterable[pl.DataFrame], group_by: str | None) -> dict[str, str]:
    """Own group → name of its merged group, for recordings that have the same bytes as others (`merged_groups`).

    Args:
        tables: recordings tables that together have all recordings with such bytes.
        group_by: as in `group_names`.
    """
    members = (zip(own_groups(rows, group_by), contents(rows), strict=True) for rows in tables)
    return merged_groups(member for pairs in members for member in pairs)


def own_groups(recordings: pl.DataFrame, group_by: str | None) -> pl.Series:
    """The name of each recording's group, before groups with the same bytes are merged."""
    paths = recordings["path"]
    if group_by is None or not recordings.height:
        return paths
    stored = {user: column for column, user in metadata_columns(recordings).items()}
    check_group_by(group_by, {user: recordings.schema[column] for user, column in stored.items()})
    column = recordings[stored[group_by]]
    return column.cast(pl.String).fill_null(paths)


def merged_groups(members: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Merge groups that hold recordings with the same bytes. Returns group → name of its merged group.

    The merged group has the smallest name of its groups. Merging is transitive: if a shares bytes with b, and b shares
    other bytes with c, all three are merged. The result does not depend on the order of the members.

    Args:
        members: (group, digest of the bytes) of each recording.

    >>> merged_groups([("b", "1"), ("a", "1"), ("c", "2"), ("d", "2"), ("b", "2"), ("e", "3")])
    {'b': 'a', 'a': 'a', 'c': 'a', 'd': 'a', 'e': 'e'}
    """
    above: dict[str, str] = {}  # group → a smaller group of the same merged group; the smallest maps to itself
    first: dict[str, str] = {}  # content → the first group with it
    for group, content in members:
        above.setdefault(group, group)
        one, other = _root(above, group), _root(above, first.setdefault(content, group))
        above[max(one, other)] = min(one, other)
    return {group: _root(above, group) for group in above}


def _root(above: dict[str, str], group: str) -> str:
    while above[group] != group:
        above[group] = group = above[above[group]]  # halves the path for the next search
    return group


def recordings_of(rows: pl.DataFrame) -> list[Recording]:
    """The rows as `Recording` values, in the table's order."""
    return list(_typed(rows))


def _typed(rows: pl.DataFrame) -> Iterator[Recording]:
    metadata = metadata_dicts(rows)
    for row, columns in zip(rows.iter_rows(named=True), metadata, strict=True):
        yield Recording(
            key=row["key"],
            path=row["path"],
            sha256=row["sha256"],
            num_bytes=row["num_bytes"],
            mtime_ns=row["mtime_ns"],
            ctime_ns=row["ctime_ns"],
            info=AudioInfo(**{name: row[name] for name in AUDIO_SCHEMA}),
            digest=row["recording_digest"],
            metadata=columns,
            excluded_segments=frozenset((row["excluded_segments"] or "").split(SEPARATOR)) - {""},
            start_frame=row["start_frame"],
            stop_frame=row["stop_frame"],
            channels=parsed_channels(row["channels"]),
            fields=parsed_field_files(row["field_files"]),
        )


def num_samples(recordings: pl.DataFrame, segment_seconds: float | None) -> int:
    """Expected number of samples of a recordings table. Approximate if recordings are cut or resampled."""
    if segment_seconds is None:
        return recordings.height
    return int((recordings["duration_seconds"] / segment_seconds).ceil().clip(1).sum())


def partition_sizes(header: CatalogHeader) -> dict[str, PartitionSize]:
    """Expected size of each partition that has recordings, with the settings of the scan."""
    entries = header.partitions.values()
    return {entry.partition: PartitionSize(entry.num_samples, entry.seconds) for entry in entries if entry.num_rows}
