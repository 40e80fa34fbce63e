"""Finds what has become worse since the last report: files that are newly rejected, and recordings that are gone.

The state at the last report is stored in the table `catalog/reported.parquet`. It is written after the report, so that
if a run crashes, the next one reports. Files that the YAML excludes are not reported. The caller delivers the report.
"""

import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from headrace.catalog.compared.reject_changes import rejected_columns
from headrace.catalog.scanning.scan import Scan
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.tables.buckets import PART_BYTES, Buckets, PartTables, bucket_of_paths, parts_of
from headrace.catalog.tables.parquet_tables import ParquetTable
from headrace.errors import ConfigError, NotFoundError
from headrace.format.rejects import Reject, RejectSubject, compare_rejects
from headrace.stores.storage import Storage
from headrace.stores.temporary_room import temporary_room

REPORTED_PATH = "catalog/reported.parquet"
_SCHEMA = {"is_row": pl.Boolean, "path": pl.String, "code": pl.String, "seconds": pl.Float64}
REGRESSION_COLUMNS = ("path", "key", "duration_seconds")
"""The columns of the recordings that `find_regressions` needs."""

_CATALOG_NOTE = "headrace.catalog"
_SECONDS_NOTE = "headrace.seconds"
_SHOWN = 10
_SLICE_ROWS = 50_000
_NOTABLE_LOSS = 0.01  # share of the usable audio, if no recording is gone
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Regressions:
    """Changes for the worse since the last report.

    Attributes:
        lost_to_rejection: path and reason of recordings that were usable and are rejected now.
        other_rejects: path and reason of all other files and rows that are newly rejected.
        gone: paths of recordings that were usable and are no longer in the source.
        seconds_before: duration of the usable audio at the last report.
        seconds: duration of the usable audio now.
        state: the table to store once this is reported, in parts.
        is_new: whether it differs from the stored one, or is of another catalog.
        catalog: what the state is made from (`CatalogHeader.content`); empty if that is not known, or if files wait.
    """

    lost_to_rejection: tuple[tuple[str, str], ...]
    other_rejects: tuple[tuple[str, str], ...]
    gone: tuple[str, ...]
    seconds_before: float
    seconds: float
    state: PartTables
    is_new: bool
    catalog: str = ""

    def reject_lines(self) -> list[str]:
        """A report of the new rejects, lost recordings first; empty without new rejects."""
        count = len(self.lost_to_rejection) + len(self.other_rejects)
        if not count:
            return []
        lost = len(self.lost_to_rejection)
        were_usable = f", {lost} of them usable until now" if lost else ""
        lines = [f"{path}, usable until now: {reason}" for path, reason in self.lost_to_rejection]
        lines += [f"{path}: {reason}" for path, reason in self.other_rejects]
        return [f"{count} files or rows are newly rejected{were_usable}", *_first(lines)]

    def drop_lines(self) -> list[str]:
        """A report of lost audio; empty if no recording is gone and the loss is below 1%."""
        lost = self.seconds_before - self.seconds
        if not self.gone and lost <= _NOTABLE_LOSS * self.seconds_before:
            return []
        hours = [f"{seconds / _SECONDS_PER_HOUR:.4g}" for seconds in (self.seconds, self.seconds_before)]
        lines = [f"usable audio: {hours[0]} hours, before {hours[1]}"]
        return [*lines, f"{len(self.gone)} recordings are gone", *_first(self.gone)] if self.gone else lines


def stored_regressions(catalog: StoredCatalog, scan: Scan) -> Regressions:
    """`find_regressions` of a catalog that has just been stored. No part is read if it was the last one reported."""
    content = "" if scan.num_unsettled else catalog.header.content  # files that wait are in the state
    seconds = _seconds_reported(catalog.output, content) if content else None
    if seconds is not None:
        return Regressions((), (), (), seconds, seconds, PartTables(), is_new=False, catalog=content)
    narrow = (rows for _, rows in catalog.partitions(REGRESSION_COLUMNS))
    found = find_regressions(catalog.output, narrow, scan.rejected, scan.unsettled["path"].to_list())
    return replace(found, catalog=content, is_new=found.is_new or bool(content))


def _seconds_reported(output: Storage, catalog: str) -> float | None:
    """Duration of the usable audio at the last report, if it was of this catalog; None otherwise."""
    try:
        file = output.local_path(REPORTED_PATH) or io.BytesIO(output.read(REPORTED_PATH))
        notes = pl.read_parquet_metadata(file)
        return float(notes[_SECONDS_NOTE]) if notes[_CATALOG_NOTE] == catalog else None
    except (NotFoundError, pl.exceptions.PolarsError, OSError, KeyError, ValueError):
        return None


def find_regressions(
    output: Storage,
    recordings: Iterable[pl.DataFrame],
    rejected: pl.DataFrame,
    unsettled: Sequence[str] | None,
    part_bytes: int = PART_BYTES,
) -> Regressions:
    """Compare a catalog with the state at the last report. Before the first report there are no regressions.

    The recordings need not fit in memory: they are compared in parts, by the hash of the path.

    Args:
        output: storage of the table of the last report.
        recordings: tables that together have the current catalog's recordings, with `REGRESSION_COLUMNS` or more.
        rejected: the catalog's rejected rows.
        unsettled: paths of files that were left for the next scan; they are not reported. None if they are not known;
            then no file is reported that is not in the catalog.
        part_bytes: about this much is kept in memory of each table, and compared at a time.
    """
    usable = Buckets(pl.Schema({"path": pl.String(), "seconds": pl.Float64()}), part_bytes)
    reported = Buckets(pl.Schema(_SCHEMA), part_bytes)
    rejects = Buckets(pl.Schema({**_SCHEMA, "reason": pl.String}), part_bytes)
    with closing(usable), closing(reported), closing(rejects):
        _add_rejects(rejects, rejected, _add_usable(usable, recordings, rejected))
        is_first = not _add_reported(reported, output)
        found = _Found(PartTables(part_bytes))
        for part in parts_of([usable, reported, rejects], part_bytes):
            now = _facts(usable.part(part), rejects.part(part))
            if is_first:
                found.state.append(now.drop("reason"))
            else:
                found.add(reported.part(part), now, unsettled)
    lost, others = (tuple((row.subject, row.reason) for row in sorted(rows)) for rows in (found.lost, found.others))
    sums = (found.seconds_before, found.seconds)
    return Regressions(lost, others, tuple(sorted(found.gone)), *sums, found.state, is_first or found.is_new)


def mark_reported(output: Storage, regressions: Regressions) -> None:
    """Store the state that was reported, unless it is stored already."""
    if not regressions.is_new:
        return
    state = regressions.state

    def parts(columns: object, condition: object, num_rows: object, size: object) -> Iterator[pl.DataFrame]:  # noqa: ARG001
        return iter(state)

    rows = register_io_source(parts, schema=pl.Schema(_SCHEMA), is_pure=True)
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        file = Path(folder, "reported.parquet")
        with temporary_room("a table"):
            usable = sum(float(part.filter(pl.col("code") == "")["seconds"].sum()) for part in state)
            notes = {_CATALOG_NOTE: regressions.catalog, _SECONDS_NOTE: repr(usable)}
            rows.sink_parquet(file, metadata=notes)
        with file.open("rb") as data:
            output.write(REPORTED_PATH, data)


@dataclass(slots=True)
class _Found:
    """Findings of all parts together; attributes as in `Regressions`."""

    state: PartTables
    lost: list[Reject] = field(default_factory=list)
    others: list[Reject] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    seconds_before: float = 0.0
    seconds: float = 0.0
    is_new: bool = False

    def add(self, before: pl.DataFrame, now: pl.DataFrame, unsettled: Sequence[str] | None) -> None:
        """Compare a part of the table of the last report with the same part of the current facts."""
        absent = before.filter(~pl.col("is_row")).join(now, on=["is_row", "path"], how="anti")
        waiting = absent if unsettled is None else absent.filter(pl.col("path").is_in(unsettled))
        reported = before.join(waiting, on=["is_row", "path"], how="anti")
        usable = reported.filter(pl.col("code") == "")
        fresh = compare_rejects(_rejected(reported), _rejected(now)).new
        subjects = pl.Series([row.subject for row in fresh if not row.is_row], dtype=pl.String)
        were_usable = set(usable.filter(pl.col("path").is_in(subjects.implode()))["path"])
        for row in fresh:
            (self.lost if not row.is_row and row.subject in were_usable else self.others).append(row)
        self.gone += usable.join(now, on=["is_row", "path"], how="anti")["path"].to_list()
        self.seconds_before += float(usable["seconds"].sum())
        self.seconds += float(now.filter(pl.col("code") == "")["seconds"].sum())
        state = pl.concat([now.drop("reason"), waiting]).sort("is_row", "path")
        self.state.append(state)
        self.is_new |= not state.equals(before.sort("is_row", "path"))


def _add_usable(usable: Buckets, recordings: Iterable[pl.DataFrame], rejected: pl.DataFrame) -> pl.Series:
    """Add path and duration of the recordings that can be decoded.

    Returns:
        Paths of recordings of which some spans can be decoded and others cannot.
    """
    decode = rejected.filter(pl.col("origin") == RejectSubject.DECODE).select("path", "key")
    partly = [pl.Series(dtype=pl.String)]
    for rows in recordings:
        good = rows.join(decode, on=["path", "key"], how="anti", maintain_order="left")
        partly.append(good["path"].filter(good["path"].is_in(decode["path"].implode())))
        usable.add(good.select("path", seconds="duration_seconds"), bucket_of_paths(good["path"]))
    return pl.concat(partly).unique()


def _add_rejects(rejects: Buckets, rejected: pl.DataFrame, partly: pl.Series) -> None:
    """Add the rejected files and metadata rows.

    A span that cannot be decoded counts as a rejected row if other spans of its file are used (`partly`).
    """
    is_span = (pl.col("origin") == RejectSubject.DECODE) & pl.col("path").is_in(partly.implode())
    origin = pl.when(is_span).then(pl.lit(str(RejectSubject.METADATA))).otherwise("origin")
    for piece in rejected.iter_slices(_SLICE_ROWS):
        columns = rejected_columns(piece.with_columns(origin=origin))
        facts = columns.select(is_row="is_row", path="subject", code="code", seconds=pl.lit(0.0), reason="reason")
        rejects.add(facts, bucket_of_paths(facts["path"]))


def _facts(usable: pl.DataFrame, rejects: pl.DataFrame) -> pl.DataFrame:
    """One row per file and per rejected metadata row: code and reason, empty for a recording."""
    rejects = rejects.unique(["is_row", "path"], keep="first", maintain_order=True)
    files = usable.group_by("path", maintain_order=True).agg(pl.col("seconds").sum())
    files = files.select(
        is_row=pl.lit(value=False), path="path", code=pl.lit(""), seconds="seconds", reason=pl.lit("")
    ).join(rejects, on=["is_row", "path"], how="anti")
    return pl.concat([files, rejects]).sort("is_row", "path")


def _add_reported(reported: Buckets, output: Storage) -> bool:
    """Add the table of the last report. False if it does not exist or cannot be read, so that nothing is reported."""
    if not output.exists(REPORTED_PATH):
        return False
    file = output.local_path(REPORTED_PATH) or io.BytesIO(output.read(REPORTED_PATH))
    try:
        if pl.read_parquet_schema(file) != pl.Schema(_SCHEMA):
            return False
        for batch in ParquetTable(pl.Schema(_SCHEMA), file, REPORTED_PATH).batches():
            reported.add(batch, bucket_of_paths(batch["path"]))
    except (pl.exceptions.PolarsError, ConfigError, OSError):
        return False
    return True


def _rejected(facts: pl.DataFrame) -> list[Reject]:
    """The rejected rows as values. The stored table has no reasons; they are empty then."""
    rejected = facts.filter(pl.col("code") != "")
    reasons = rejected["reason"] if "reason" in rejected.columns else pl.repeat("", rejected.height, eager=True)
    rows = zip(rejected["path"], rejected["code"], reasons, rejected["is_row"], strict=True)
    return [Reject(*row) for row in rows]


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [*lines[:_SHOWN], *more]
