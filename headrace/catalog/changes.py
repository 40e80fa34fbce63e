"""Compares two catalogs: which files, metadata and rejections have changed.

Which partitions must be rebuilt because of a change is decided by `headrace.build.reconcile`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import polars as pl

from headrace.catalog.buckets import ALL, PART_BYTES, Buckets, bucket_of_paths, parts_of
from headrace.catalog.columns import REJECTED_SCHEMA
from headrace.catalog.field_files import field_file_facts
from headrace.catalog.parts import StoredCatalog, read_rows
from headrace.catalog.scan import Catalog
from headrace.config.source import SampleKind
from headrace.errors import CatalogError, FormatError
from headrace.format.rejects import RejectChanges, Rejected, RejectSubject, compare_rejects

_BEFORE = "_before"
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
    tables = [None if found is None else (found.recordings, found.rejected) for found in (before, after)]
    old, new = (_empty() if table is None else _files(_hashed(table[0]), table[1]) for table in tables)
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
    rejects = (None if before is None else _past_rejects(before), after.rejected())
    tables = [Buckets(pl.Schema(dict.fromkeys(_COMPARED, pl.String)), part_bytes) for _ in rejects]
    with closing(tables[0]), closing(tables[1]):
        for table, catalog in zip(tables, (before, after), strict=True):
            for rows in () if catalog is None else _rows(catalog, differ, is_past=catalog is before):
                hashed = _hashed(rows)
                table.add(hashed, bucket_of_paths(hashed["path"]))
        found = [
            _differences(
                *(_files(table.part(part), _of(part, gone)) for table, gone in zip(tables, rejects, strict=True))
            )
            for part in parts_of(tables, part_bytes)
        ]
    values = [
        [] if rows is None else [Rejected(*row) for row in rejected_columns(rows).iter_rows()] for rows in rejects
    ]
    unit = "rows" if after.header.samples == SampleKind.ROWS else "recordings"
    return _changes(found, compare_rejects(*values), after.header.num_rows, unit)


_Paths = tuple[pl.Series, pl.Series, pl.Series, pl.Series]
"""Paths of files that were added, changed, removed, and described otherwise."""


def _differences(old: pl.DataFrame, new: pl.DataFrame) -> _Paths:
    both = old.join(
        new, on="path", suffix=_BEFORE
    )  # the suffix is on the columns of the later catalog; only equality matters
    has_other_bytes = pl.col("sha256").ne_missing(pl.col(f"sha256{_BEFORE}"))
    has_other_digest = pl.col("recording_digest") != pl.col(f"recording_digest{_BEFORE}")  # null unless both have one
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


def _rows(catalog: StoredCatalog, partitions: Sequence[str], *, is_past: bool) -> Iterator[pl.DataFrame]:
    """The recordings of some partitions, with the columns that are compared."""
    entries = catalog.header.partitions
    for entry in (entries[name] for name in partitions if name in entries):
        if entry.rows is not None:
            with contextlib.suppress(*((CatalogError, FormatError) if is_past else ())):
                yield read_rows(catalog.output, entry, _READ)


def _past_rejects(catalog: StoredCatalog) -> pl.DataFrame:
    try:
        return catalog.rejected()
    except (CatalogError, FormatError):
        return pl.DataFrame(schema=REJECTED_SCHEMA)


def rejected_rows(catalog: Catalog | None) -> list[Rejected]:
    """The rows of the rejected table as values, in order; empty without a catalog."""
    return [] if catalog is None else [Rejected(*row) for row in rejected_columns(catalog.rejected).iter_rows()]


def rejected_columns(rejected: pl.DataFrame) -> pl.DataFrame:
    """The rejected table with the columns of `Rejected`, in their order."""
    is_key = pl.col("origin") == RejectSubject.EXCLUDE
    is_row = pl.col("origin") == RejectSubject.METADATA
    return rejected.select(
        subject=pl.when(is_key)
        .then(pl.format("key {}", "key"))
        .when(is_row & pl.col("key").is_not_null())
        .then(pl.format("{} ({})", "path", "key"))
        .otherwise("path"),
        code="code",
        reason="reason",
        is_row=is_row,
    )


def _empty() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(_COMPARED, pl.String))


def _hashed(recordings: pl.DataFrame) -> pl.DataFrame:
    """Files of recordings with their hashes: those of the rows, then those of named audio fields, without a digest."""
    others = field_file_facts(recordings).select("path", "sha256")
    return pl.concat([recordings.select(_COMPARED), others], how="diagonal")


def _of(part: range, rejected: pl.DataFrame | None) -> pl.DataFrame | None:
    """The rejected rows of a part."""
    if rejected is None or part == ALL:
        return rejected
    return rejected.filter(bucket_of_paths(rejected["path"]).is_between(part.start, part.stop - 1))


def _files(hashed: pl.DataFrame, rejected: pl.DataFrame | None) -> pl.DataFrame:
    """All files of a scan: `path`, `sha256`, and `recording_digest` for recordings; that of all rows of a file."""
    used, others = (hashed.filter(condition) for condition in (_IS_ROW, ~_IS_ROW))
    if used["path"].is_duplicated().any():
        digests = pl.col("recording_digest").sort().str.join(" ")
        used = used.group_by("path").agg(pl.col("sha256").first(), digests)
    found = [used, others]
    if rejected is not None:
        found.append(rejected.filter(pl.col("origin") == RejectSubject.FILE).select("path", "sha256"))
    return pl.concat(found, how="diagonal").unique("path", keep="first")
