"""Scans a source: lists it, reads new and changed files, joins the metadata, and returns the catalog.

`scan` scans once; `scan_settled` also waits for files that are still being written. The decisions are pure functions:
`plan_scan` decides which files to read, `headrace.catalog.acceptance` which files become recordings. Nothing is stored
here; `headrace.catalog.update` stores the catalog.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import polars as pl

from headrace import audio
from headrace.catalog.acceptance import (
    CatalogSettings,
    accepted_and_rejected,
    decode_rejects,
    facts_of,
    sorted_rejects,
)
from headrace.catalog.checkpoint import ScanCheckpoint
from headrace.catalog.columns import FACT_SCHEMA, LISTING_SCHEMA, STAMP_SCHEMA
from headrace.catalog.field_files import files_of
from headrace.catalog.listing import Listing
from headrace.catalog.metadata_rows import MetadataRows, TableSettings, prepared_rows
from headrace.catalog.probing import Probe, Probing, probe_files, still_valid
from headrace.catalog.row_acceptance import JudgedRows, accepted_and_rejected_rows
from headrace.catalog.scan_workers import FileWorkers, ReadingThreads
from headrace.catalog.sources import Source
from headrace.config.source import SampleKind
from headrace.format.rejects import RejectSubject
from headrace.machine import num_cores

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Catalog:
    """The two tables of a catalog, sorted by path.

    Attributes:
        recordings: files, or rows of the metadata table, that can become samples: the columns of `RECORDING_SCHEMA`,
            then the metadata columns.
        rejected: rejected files, metadata rows and keys with their reasons (`REJECTED_SCHEMA`).
        probe_version: version of the probe that read the files; files that it rejected are read again by another one.
    """

    recordings: pl.DataFrame
    rejected: pl.DataFrame
    probe_version: str


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan.

    Attributes:
        catalog: the new catalog.
        unsettled: files left for the next scan (`STAMP_SCHEMA`).
        num_found: files of the source: those of the recordings, rejected ones of origin `file`, and unsettled ones.
        num_opened: files that were read.
        num_reused: files whose facts were taken from the previous catalog.
        num_resumed: files whose facts were taken from a scan that was interrupted.
        num_rows: rows of the metadata table.
        num_merged_rows: rows of the metadata table that repeat another row.
        num_waiting_rows: rows that wait for files of `unsettled`, if rows are samples.
        num_cut_rows: rows whose spans were cut at their recordings' ends (`source.span_tolerance_seconds`).
        seconds: duration of each step: `list`, `plan`, `read`, `judge`.
    """

    catalog: Catalog
    unsettled: pl.DataFrame
    num_found: int
    num_opened: int
    num_reused: int
    num_resumed: int = 0
    num_rows: int = 0
    num_merged_rows: int = 0
    num_waiting_rows: int = 0
    num_cut_rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def recordings(self) -> pl.DataFrame:
        """The catalog's recordings."""
        return self.catalog.recordings

    @property
    def rejected(self) -> pl.DataFrame:
        """The catalog's rejected rows."""
        return self.catalog.rejected

    @property
    def num_used(self) -> int:
        """Number of files that recordings or rows name, those of named audio fields included."""
        return files_of(self.recordings).height

    @property
    def num_unsettled(self) -> int:
        """Number of files that were left for the next scan."""
        return self.unsettled.height


@dataclass(frozen=True, slots=True)
class ScanRuntime:
    """How a scan runs. Nothing here changes the result for files that do not change meanwhile.

    Attributes:
        clock: returns the current time in nanoseconds since 1970.
        sleep: waits for a number of seconds.
        workers: read the files.
        progress: called with (files read, files to read), in the caller's thread.
        resuming: called with the number of files that an interrupted scan has read, if there are any.
        settling: called with (files, seconds) before the scan waits that long for these files to settle.
        probe: reads a header.
        probe_version: returns a version of everything that the probe's results depend on.
    """

    clock: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    workers: FileWorkers = field(default_factory=lambda: ReadingThreads(4 * num_cores()))
    progress: Callable[[int, int], None] = lambda done, total: None  # noqa: ARG005
    resuming: Callable[[int], None] = lambda num_files: None  # noqa: ARG005
    settling: Callable[[int, float], None] = lambda num_files, seconds: None  # noqa: ARG005
    probe: Probe = audio.probe
    probe_version: Callable[[], str] = audio.codec_version


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Which files of a listing to read.

    Attributes:
        known: files that need not be opened (`FACT_SCHEMA`): unchanged files, and those that the listing rejected.
        num_reused: number of unchanged files in `known`.
        to_open: new and changed files (`STAMP_SCHEMA`).
        unsettled: new and changed files that changed too recently to be read (`STAMP_SCHEMA`).
    """

    known: pl.DataFrame
    num_reused: int
    to_open: pl.DataFrame
    unsettled: pl.DataFrame


def plan_scan(listing: pl.DataFrame, facts: pl.DataFrame, settle_ns: int, now_ns: int) -> ScanPlan:
    """Divide a listing into files that are known, files to read, and files to leave for the next scan.

    A file is unchanged if path, size and modification time are the same. A modification time in the future, from a
    clock that is ahead, counts as recent only within the same span, so that a wrong date does not delay a file for
    years.
    """
    listed = listing.filter(pl.col("code").is_null()).select(*STAMP_SCHEMA)
    rejected = listing.filter(pl.col("code").is_not_null())
    stamp = list(STAMP_SCHEMA)
    known = facts.join(listed, on=stamp, how="semi")
    new = listed.join(facts, on=stamp, how="anti")
    is_young = (pl.col("mtime_ns") - now_ns).abs() < settle_ns
    return ScanPlan(
        known=pl.concat([known, rejected], how="diagonal"),
        num_reused=known.height,
        to_open=new.filter(~is_young),
        unsettled=new.filter(is_young),
    )


def scan(  # noqa: PLR0913 - what a scan reads, and how it runs
    source: Source,
    previous: Catalog | None,
    settings: CatalogSettings,
    metadata: pl.DataFrame | None = None,
    runtime: ScanRuntime | None = None,
    *,
    checkpoint: ScanCheckpoint | None = None,
) -> Scan:
    """Scan the source once.

    Args:
        source: the source to list and read.
        previous: the catalog of an earlier scan; files that have not changed since are not opened.
        settings: the settings of the scan.
        metadata: the metadata table (`catalog.metadata_files.read_metadata`): a column `path`, and any others.
        runtime: workers, clock, progress.
        checkpoint: keeps what was read, if the scan is interrupted; what an earlier scan kept there is not read again.

    Raises:
        ConfigError: the metadata table has no column `path`, a column cannot be stored, or rows for one path differ. No
            file has been opened then.
    """
    runtime = runtime or ScanRuntime()
    watch = _Stopwatch()
    version = runtime.probe_version()
    now_ns = runtime.clock()
    listing = pl.concat([_table(Listing()), *map(_table, source.list())])
    watch.lap("list")
    rows = prepared_rows(
        metadata, TableSettings(settings.samples, settings.columns, settings.fields, source.uri), listing["path"]
    )
    remembered = _remembered(previous, version)
    resumed = _resumed(checkpoint, version, remembered)
    plan = plan_scan(listing, pl.concat([remembered, resumed]), round(settings.settle_seconds * _NS), now_ns)
    num_resumed = resumed.join(listing, on=list(STAMP_SCHEMA), how="semi").height
    if num_resumed:
        runtime.resuming(num_resumed)
    watch.lap("plan")
    how = Probing(runtime.probe, version, runtime.workers, runtime.progress, checkpoint)
    probed = probe_files(source, plan.to_open, how)
    watch.lap("read")
    unsettled = pl.concat([plan.unsettled, probed.changing]).sort("path")
    num_found, num_opened, num_reused = listing.height, plan.to_open.height, plan.num_reused - num_resumed
    facts = pl.concat([plan.known, probed.facts]).sort("path")
    del listing, remembered, resumed, plan, probed  # each has a row for every file
    judged = _judged(facts, rows, unsettled["path"], settings)
    rejected = _with_decode_rejects_of(judged.rejected, judged.recordings, previous)
    catalog = Catalog(judged.recordings, rejected, version)
    watch.lap("judge")
    return Scan(
        catalog,
        unsettled,
        num_found,
        num_opened,
        num_reused,
        num_resumed,
        num_rows=0 if metadata is None else metadata.height,
        num_merged_rows=rows.num_merged,
        num_waiting_rows=judged.num_waiting,
        num_cut_rows=judged.num_cut,
        seconds=watch.seconds,
    )


def scan_settled(  # noqa: PLR0913 - as `scan`
    source: Source,
    previous: Catalog | None,
    settings: CatalogSettings,
    metadata: pl.DataFrame | None = None,
    runtime: ScanRuntime | None = None,
    *,
    checkpoint: ScanCheckpoint | None = None,
) -> Scan:
    """Scan the source; if files changed recently, wait for them to settle and scan once more.

    It waits for at most `settle_seconds` + 1 s. Files that still change are left for the next scan.
    """
    runtime = runtime or ScanRuntime()
    first = scan(source, previous, settings, metadata, runtime, checkpoint=checkpoint)
    if not first.num_unsettled:
        return first
    seconds = _seconds_to_settle(first.unsettled, settings.settle_seconds, runtime.clock())
    runtime.settling(first.num_unsettled, seconds)
    runtime.sleep(seconds)
    second = scan(source, first.catalog, settings, metadata, runtime, checkpoint=checkpoint)
    return replace(
        second,
        num_opened=first.num_opened + second.num_opened,
        num_reused=second.num_reused - first.num_opened - first.num_resumed,
        num_resumed=first.num_resumed + second.num_resumed,
        seconds={step: first.seconds[step] + second.seconds[step] for step in second.seconds},
    )


def _judged(facts: pl.DataFrame, rows: MetadataRows, unsettled: pl.Series, settings: CatalogSettings) -> JudgedRows:
    """The accepted and the rejected files, or rows."""
    if settings.samples == SampleKind.ROWS:
        return accepted_and_rejected_rows(facts, rows, unsettled, settings)
    return JudgedRows(*accepted_and_rejected(facts, rows, unsettled, settings), num_cut=0, num_waiting=0)


def _table(listing: Listing) -> pl.DataFrame:
    """A chunk of a listing (`LISTING_SCHEMA`)."""
    return pl.DataFrame({name: getattr(listing, name) for name in LISTING_SCHEMA}, schema=LISTING_SCHEMA)


def _remembered(previous: Catalog | None, probe_version: str) -> pl.DataFrame:
    """Facts of the earlier scan that are valid for this version of the probe (`FACT_SCHEMA`)."""
    if previous is None:
        return pl.DataFrame(schema=FACT_SCHEMA)
    return still_valid(facts_of(previous.recordings, previous.rejected), previous.probe_version, probe_version)


def _resumed(checkpoint: ScanCheckpoint | None, probe_version: str, remembered: pl.DataFrame) -> pl.DataFrame:
    """Facts that an interrupted scan kept and that the previous catalog lacks (`FACT_SCHEMA`), once by stamp."""
    if checkpoint is None:
        return pl.DataFrame(schema=FACT_SCHEMA)
    stamp = list(STAMP_SCHEMA)
    kept = checkpoint.facts(probe_version).unique(stamp, keep="first", maintain_order=True)
    return kept.join(remembered, on=stamp, how="anti")


def _with_decode_rejects_of(rejected: pl.DataFrame, recordings: pl.DataFrame, previous: Catalog | None) -> pl.DataFrame:
    """The rejected rows, and those of origin `decode` of the previous catalog whose recordings have the same bytes."""
    if previous is None:
        return rejected
    faults = previous.rejected.filter(pl.col("origin") == RejectSubject.DECODE)
    return sorted_rejects(pl.concat([rejected, decode_rejects(recordings, faults)])) if faults.height else rejected


def _seconds_to_settle(unsettled: pl.DataFrame, settle_seconds: float, now_ns: int) -> float:
    newest = unsettled["mtime_ns"].max()
    remaining = (newest - now_ns) / _NS + settle_seconds if isinstance(newest, int) else 0.0
    return min(max(remaining, 0.0) + 0.05, settle_seconds + 1.0)


class _Stopwatch:
    """Measures the seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = now - self._last
        self._last = now
