"""Compares two catalogs: which files, metadata and rejections have changed.

Which partitions must be rebuilt because of a change is decided by `headrace.assemble.reconcile`.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import polars as pl

from headrace.catalog.compared.reject_changes import (
    COMPARED_REJECTS,
    RejectComparison,
    refused_files,
    rejected_columns,
    rejects_by_subject,
)
from headrace.catalog.rows.field_files import field_file_facts
from headrace.catalog.rows.schemas import REJECTED_SCHEMA
from headrace.catalog.scanning.scan import Catalog
from headrace.catalog.stored.header import PartitionEntry
from headrace.catalog.stored.parts import StoredCatalog, read_rows
from headrace.catalog.tables.buckets import PART_BYTES, Buckets, bucket_of_paths, parts_of
from headrace.config.source import SampleKind
from headrace.errors import CatalogError, FormatError
from headrace.format.rejects import Reject, RejectChanges, RejectSubject, compare_rejects

_LATER = "_later"
_COMPARED = ("path", "sha256", "recording_digest")
_READ = (*_COMPARED, "field_files")
_IS_ROW = pl.col("recording_digest").is_not_null()


@dataclass(frozen=True, slots=True)
class CatalogChanges:
    """Differences between an earlier and a later catalog. Paths are sorted.

    Attributes:
        added: files, usable or rejected, that are only in the later catalog.
        changed: files with other bytes.
        removed: files that are only in the earlier catalog.
        described: recordings with the same bytes, but other metadata, another key or other excluded segments.
        rejects: differences between the rejected files and rows.
        num_recordings: number of recordings, or rows, in the later catalog.
        unit: what is counted: `recordings`, or `rows` if these are samples.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    described: tuple[str, ...]
    rejects: RejectChanges
    num_recordings: int
    unit: str = "recordings"

    @property
    def is_empty(self) -> bool:
        """Whether there are no differences."""
        rejects = self.rejects
        files = (self.added, self.changed, self.removed, self.described)
        return not any((*files, rejects.new, rejects.num_gone, rejects.left_out))


def compare_catalogs(before: Catalog | None, after: Catalog) -> CatalogChanges:
    """Compare two catalogs. Without an earlier one, everything is new."""
    old = _empty() if before is None else _files(_hashed(before.recordings), _refused(before.rejected))
    new = _files(_hashed(after.recordings), _refused(after.rejected))
    rejects = compare_rejects(rejected_rows(before), rejected_rows(after))
    return _changes([_differences(old, new)], rejects, after.recordings.height)


def compare_stored(before: StoredCatalog | None, after: StoredCatalog, part_bytes: int = PART_BYTES) -> CatalogChanges:
    """Compare two stored catalogs. Only partitions that differ are read, and not all of them are in memory at once.

    A part of the earlier catalog that cannot be read any more counts as empty: its files are shown as new.

    Args:
        before: the earlier catalog; None without one.
        after: the later catalog.
        part_bytes: about this much is kept in memory of each table, and compared at a time.
    """
    old = {} if before is None else before.header.partitions
    new = after.header.partitions
    differ = [name for name in {**old, **new} if name not in old or name not in new or old[name] != new[name]]
    past_rows = () if before is None else _past_rows(before, differ)
    with (
        closing(rejects_by_subject(_past_rejects(before), part_bytes)) as past_rejects,
        closing(rejects_by_subject(after.rejected(COMPARED_REJECTS), part_bytes)) as rejects,
        closing(_by_path(past_rows, part_bytes)) as past,
        closing(_by_path(_rows(after, differ), part_bytes)) as now,
    ):
        found, compared = [], RejectComparison()
        for part in parts_of([past, now, past_rejects, rejects], part_bytes):
            earlier, later = past_rejects.part(part), rejects.part(part)
            compared.add(earlier, later)
            old_files, new_files = (
                _files(files.part(part), refused_files(rows)) for files, rows in ((past, earlier), (now, later))
            )
            found.append(_differences(old_files, new_files))
    unit = "rows" if after.header.samples == SampleKind.ROWS else "recordings"
    return _changes(found, compared.changes(), after.header.num_rows, unit)


_Paths = tuple[pl.Series, pl.Series, pl.Series, pl.Series]
"""Paths of files that were added, changed, removed, and described otherwise."""


def _differences(old: pl.DataFrame, new: pl.DataFrame) -> _Paths:
    both = old.join(new, on="path", suffix=_LATER)
    has_other_bytes = pl.col("sha256").ne_missing(pl.col(f"sha256{_LATER}"))
    has_other_digest = pl.col("recording_digest") != pl.col(f"recording_digest{_LATER}")  # null unless both have one
    return (
        new.join(old, on="path", how="anti")["path"],
        both.filter(has_other_bytes)["path"],
        old.join(new, on="path", how="anti")["path"],
        both.filter(~has_other_bytes & has_other_digest)["path"],
    )


def _changes(
    found: Sequence[_Paths], rejects: RejectChanges, num_recordings: int, unit: str = "recordings"
) -> CatalogChanges:
    added, changed, removed, described = (tuple(pl.concat(paths).sort()) for paths in zip(*found, strict=True))
    return CatalogChanges(added, changed, removed, described, rejects, num_recordings, unit)


def _rows(catalog: StoredCatalog, partitions: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The recordings of some partitions, with the columns that are compared."""
    for entry in _entries(catalog, partitions):
        yield read_rows(catalog.output, entry, _READ)


def _past_rows(catalog: StoredCatalog, partitions: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Recordings of an earlier catalog, as of `_rows`, without parts that cannot be read any more."""
    for entry in _entries(catalog, partitions):
        with contextlib.suppress(CatalogError, FormatError):
            yield read_rows(catalog.output, entry, _READ)


def _entries(catalog: StoredCatalog, partitions: Sequence[str]) -> Iterator[PartitionEntry]:
    entries = catalog.header.partitions
    return (entries[name] for name in partitions if name in entries and entries[name].rows is not None)


def _by_path(recordings: Iterable[pl.DataFrame], part_bytes: int) -> Buckets:
    """Files of recordings with their hashes, by bucket of the path."""
    table = Buckets(pl.Schema(dict.fromkeys(_COMPARED, pl.String)), part_bytes)
    for rows in recordings:
        hashed = _hashed(rows)
        table.add(hashed, bucket_of_paths(hashed["path"]))
    return table


def _past_rejects(catalog: StoredCatalog | None) -> pl.DataFrame:
    """The rejected rows of an earlier catalog; none if there is no catalog, or if they cannot be read any more."""
    nothing = pl.DataFrame(schema=REJECTED_SCHEMA)
    try:
        return nothing if catalog is None else catalog.rejected(COMPARED_REJECTS)
    except (CatalogError, FormatError):
        return nothing


def rejected_rows(catalog: Catalog | None) -> list[Reject]:
    """The rows of the rejected table as values, in order; empty without a catalog."""
    return [] if catalog is None else [Reject(*row) for row in rejected_columns(catalog.rejected).iter_rows()]


def _empty() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(_COMPARED, pl.String))


def _hashed(recordings: pl.DataFrame) -> pl.DataFrame:
    """Files of recordings with their hashes: those of the rows, then those of named audio fields, without a digest."""
    others = field_file_facts(recordings).select("path", "sha256")
    return pl.concat([recordings.select(_COMPARED), others], how="diagonal")


def _refused(rejected: pl.DataFrame) -> pl.DataFrame:
    """The rejected files: `path`, `sha256`."""
    return rejected.filter(pl.col("origin") == RejectSubject.FILE).select("path", "sha256")


def _files(hashed: pl.DataFrame, refused: pl.DataFrame) -> pl.DataFrame:
    """All files of a scan: `path`, `sha256`, and `recording_digest` for recordings; that of all rows of a file."""
    used, others = (hashed.filter(condition) for condition in (_IS_ROW, ~_IS_ROW))
    if used["path"].is_duplicated().any():
        digests = pl.col("recording_digest").sort().str.join(" ")
        used = used.group_by("path").agg(pl.col("sha256").first(), digests)
    return pl.concat([used, others, refused], how="diagonal").unique("path", keep="first")
