"""Finds what has become worse since the last report: files that are newly rejected, and recordings that are gone.

The state at the last report is stored in the table `catalog/reported.parquet`. It is written after the report, so that
if a run crashes, the next one reports. Files that the YAML excludes are not reported. The caller delivers the report.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.catalog.changes import rejected_columns
from headrace.catalog.parquet_files import write_if_new
from headrace.catalog.scan import Catalog
from headrace.format.rejects import Rejected, RejectSubject, compare_rejects
from headrace.stores.storage import Storage

REPORTED_PATH = "catalog/reported.parquet"
_SCHEMA = {"is_row": pl.Boolean, "path": pl.String, "code": pl.String, "seconds": pl.Float64}
REGRESSION_COLUMNS = ("path", "key", "duration_seconds")
"""The columns of the recordings that `find_regressions` needs."""

_SHOWN = 10
_NOTABLE_LOSS = 0.01  # share of the usable audio, if no recording is gone
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Regressions:
    """What has become worse since the last report.

    Attributes:
        lost_to_rejection: path and reason of recordings that were usable and are rejected now.
        other_rejects: path and reason of all other files and rows that are newly rejected.
        gone: paths of recordings that were usable and are no longer in the source.
        seconds_before: duration of the usable audio at the last report.
        seconds: duration of the usable audio now.
        state: the table to store once this is reported.
    """

    lost_to_rejection: tuple[tuple[str, str], ...]
    other_rejects: tuple[tuple[str, str], ...]
    gone: tuple[str, ...]
    seconds_before: float
    seconds: float
    state: pl.DataFrame

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


def find_regressions(output: Storage, catalog: Catalog, unsettled: Sequence[str] | None) -> Regressions:
    """Compare a catalog with the state at the last report. Before the first report there are no regressions.

    Args:
        output: storage of the table of the last report.
        catalog: the current catalog, with the columns `REGRESSION_COLUMNS` or more.
        unsettled: paths of files that were left for the next scan; they are not reported. None if they are not known;
            then no file is reported that is not in the catalog.
    """
    now = _facts(catalog)
    state = now.drop("reason")
    reported = _reported(output)
    if reported is None:
        return Regressions((), (), (), 0.0, 0.0, state)
    absent = reported.filter(~pl.col("is_row")).join(now, on=["is_row", "path"], how="anti")
    waiting = absent if unsettled is None else absent.filter(pl.col("path").is_in(unsettled))
    reported = reported.join(waiting, on=["is_row", "path"], how="anti")
    usable = reported.filter(pl.col("code") == "")
    were_usable = set(usable["path"])
    fresh = sorted(compare_rejects(_rejected(reported), _rejected(now)).new)
    return Regressions(
        lost_to_rejection=tuple(
            (row.subject, row.reason) for row in fresh if not row.is_row and row.subject in were_usable
        ),
        other_rejects=tuple((row.subject, row.reason) for row in fresh if row.is_row or row.subject not in were_usable),
        gone=tuple(usable.join(now, on=["is_row", "path"], how="anti")["path"]),
        seconds_before=float(usable["seconds"].sum()),
        seconds=float(now.filter(pl.col("code") == "")["seconds"].sum()),
        state=pl.concat([state, waiting]).sort("is_row", "path"),
    )


def mark_reported(output: Storage, regressions: Regressions) -> None:
    """Store the state that was reported."""
    file = io.BytesIO()
    regressions.state.write_parquet(file)
    write_if_new(output, REPORTED_PATH, file.getvalue())


def _facts(catalog: Catalog) -> pl.DataFrame:
    """One row per file and per rejected metadata row: code and reason, empty for a recording.

    A span that cannot be decoded counts as a rejected row if other spans of its file are used.
    """
    is_decode = pl.col("origin") == RejectSubject.DECODE
    recordings = catalog.recordings.join(catalog.rejected.filter(is_decode), on=["path", "key"], how="anti")
    is_span = is_decode & pl.col("path").is_in(recordings["path"].unique().implode())
    origin = pl.when(is_span).then(pl.lit(str(RejectSubject.METADATA))).otherwise("origin")
    columns = rejected_columns(catalog.rejected.with_columns(origin=origin))
    rejected = columns.select(
        is_row="is_row", path="subject", code="code", seconds=pl.lit(0.0), reason="reason"
    ).unique(["is_row", "path"], keep="first", maintain_order=True)
    usable = recordings.select(
        is_row=pl.lit(value=False),
        path="path",
        code=pl.lit(""),
        seconds="duration_seconds",
        reason=pl.lit(""),
    )
    usable = usable.group_by("is_row", "path", "code", "reason", maintain_order=True).agg(pl.col("seconds").sum())
    usable = usable.select("is_row", "path", "code", "seconds", "reason").join(
        rejected, on=["is_row", "path"], how="anti"
    )
    return pl.concat([usable, rejected]).sort("is_row", "path")


def _reported(output: Storage) -> pl.DataFrame | None:
    """The table of the last report; None if it does not exist or cannot be read, so that nothing is reported."""
    if not output.exists(REPORTED_PATH):
        return None
    try:
        found = pl.read_parquet(io.BytesIO(output.read(REPORTED_PATH)))
    except pl.exceptions.PolarsError:
        return None
    return found if found.schema == pl.Schema(_SCHEMA) else None


def _rejected(facts: pl.DataFrame) -> list[Rejected]:
    """The rejected rows as values. The stored table has no reasons; they are empty then."""
    rejected = facts.filter(pl.col("code") != "")
    reasons = rejected["reason"] if "reason" in rejected.columns else pl.repeat("", rejected.height, eager=True)
    rows = zip(rejected["path"], rejected["code"], reasons, rejected["is_row"], strict=True)
    return [Rejected(*row) for row in rows]


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return [*lines[:_SHOWN], *more]
