"""Compares two catalogs: which files, metadata and rejections have changed.

Which partitions must be rebuilt because of a change is decided by `headrace.build.reconcile`.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

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
    old = _files(before) if before is not None else _files(after).clear()
    new = _files(after)
    both = old.join(
        new, on="path", suffix=_BEFORE
    )  # the suffix is on the columns of the later catalog; only equality matters
    has_other_bytes = pl.col("sha256").ne_missing(pl.col(f"sha256{_BEFORE}"))
    has_other_digest = pl.col("recording_digest") != pl.col(f"recording_digest{_BEFORE}")  # null unless both have one
    return CatalogChanges(
        added=_paths(new.join(old, on="path", how="anti")),
        changed=_paths(both.filter(has_other_bytes)),
        removed=_paths(old.join(new, on="path", how="anti")),
        described=_paths(both.filter(~has_other_bytes & has_other_digest)),
        rejects=compare_rejects(rejected_rows(before), rejected_rows(after)),
        num_recordings=after.recordings.height,
    )


def compare_stored(before: StoredCatalog | None, after: StoredCatalog) -> CatalogChanges:
    """Compare two stored catalogs. Only partitions that differ are read.

    A part of the earlier catalog that cannot be read any more counts as empty: its files are shown as new.
    """
    old = {} if before is None else before.header.partitions
    new = after.header.partitions
    differ = [name for name in {**old, **new} if name not in old or name not in new or old[name] != new[name]]
    was = None if before is None else Catalog(_rows(before, differ, is_past=True), _past_rejects(before), "")
    found = compare_catalogs(was, Catalog(_rows(after, differ, is_past=False), after.rejected(), ""))
    unit = "rows" if after.header.samples == SampleKind.ROWS else "recordings"
    return replace(found, num_recordings=after.header.num_rows, unit=unit)


def _rows(catalog: StoredCatalog, partitions: Sequence[str], *, is_past: bool) -> pl.DataFrame:
    """The recordings of some partitions, with the columns that are compared."""
    tables = [pl.DataFrame(schema=dict.fromkeys(_READ, pl.String))]
    entries = catalog.header.partitions
    for entry in (entries[name] for name in partitions if name in entries):
        if entry.rows is not None:
            with contextlib.suppress(*((CatalogError, FormatError) if is_past else ())):
                tables.append(read_rows(catalog.output, entry, _READ))
    return pl.concat(tables)


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


def _files(catalog: Catalog) -> pl.DataFrame:
    """All files of a scan: `path`, `sha256`, and `recording_digest` for recordings; that of all rows of a file."""
    rejected = catalog.rejected.filter(pl.col("origin") == RejectSubject.FILE).select("path", "sha256")
    used = catalog.recordings.select(_COMPARED)
    others = field_file_facts(catalog.recordings).select("path", "sha256")
    if used["path"].is_duplicated().any():
        digests = pl.col("recording_digest").sort().str.join(" ")
        used = used.group_by("path").agg(pl.col("sha256").first(), digests)
    return pl.concat([used, others, rejected], how="diagonal").unique("path", keep="first")


def _paths(files: pl.DataFrame) -> tuple[str, ...]:
    return tuple(files["path"].sort())
