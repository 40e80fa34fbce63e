"""Scans a source: lists it, reads new and changed files, joins the metadata, and returns the catalog.

`scan` scans once; `scan_settled` also waits for files that are still being written.
`headrace.catalog.scanning.scan_parts` does the work, part by part; here are the results in memory. Nothing is stored
here; `headrace.catalog.stored.update` stores the catalog.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field

import polars as pl

from headrace.catalog.judging.acceptance import CatalogSettings, facts_of, sorted_rejects
from headrace.catalog.rows.field_files import files_of
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.early_listing import EarlyListing
from headrace.catalog.scanning.scan_parts import ScannedParts, scan_parts
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_tables import EarlierScan
from headrace.catalog.tables.metadata_files import MetadataTable, TableInMemory
from headrace.format.rejects import RejectSubject
from headrace.sources.sources import Source

_NS = 1_000_000_000
_MOST_DURATIONS = 100_000


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


@dataclass(slots=True)
class RecordingFigures:
    """Sums over the recordings of a catalog, which are given in parts.

    Attributes:
        seconds: duration of all recordings, or of all rows.
        num_bytes: size of their files; each file counts once.
        num_duplicates: recordings that have the same audio as another.
        durations: durations of at most 100,000 recordings, in seconds.
    """

    seconds: float = 0.0
    num_bytes: int = 0
    num_duplicates: int = 0
    durations: list[float] = field(default_factory=list)

    def add(self, recordings: pl.DataFrame) -> None:
        """Add a part. It has all rows of its files."""
        durations = recordings["duration_seconds"]
        self.seconds += float(durations.sum())
        self.num_bytes += int(recordings.filter(pl.col("path").is_first_distinct())["num_bytes"].sum())
        self.num_duplicates += recordings["duplicate_of"].count()
        self.durations += durations.head(_MOST_DURATIONS - len(self.durations)).to_list()


@dataclass(frozen=True, slots=True)
class ScanTotals:
    """Totals of the finished parts of a scan; attributes as in `Scan`."""

    schema: pl.Schema
    rejected: pl.DataFrame
    figures: RecordingFigures
    num_recordings: int
    num_used: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan.

    Attributes:
        read: reads the catalog's recordings with these columns, or with all of them.
        schema: names and types of the columns of the recordings.
        rejected: the catalog's rejected rows.
        figures: sums over the recordings.
        probe_version: version of the probe that read the files.
        unsettled: files left for the next scan (`STAMP_SCHEMA`).
        num_recordings: number of recordings, or rows, in the catalog.
        num_used: number of files that recordings or rows name, those of named audio fields included.
        num_found: files of the source: those of the recordings, rejected ones of origin `file`, unsettled ones, and
            those that are left out.
        num_opened: files that were read.
        num_reused: files whose facts were taken from the previous catalog.
        num_resumed: files whose facts were taken from a scan that was interrupted.
        num_rows: rows of the metadata table.
        num_left_out_rows: rows of the metadata table that `source.where` leaves out.
        num_left_out_files: files of the source that only such rows name.
        num_merged_rows: rows of the metadata table that repeat another row.
        num_waiting_rows: rows that wait for files of `unsettled`, if rows are samples.
        num_cut_rows: rows whose spans were cut at their recordings' ends (`source.span_tolerance_seconds`).
        num_sidecars_alone: sidecars beside which there is no recording.
        num_other_paths: files whose paths do not have the form of `source.path_columns`.
        seconds: duration of each step: `list`, `plan`, `read`, `judge`.
    """

    read: Callable[[Sequence[str] | None], pl.DataFrame]
    schema: pl.Schema
    rejected: pl.DataFrame
    figures: RecordingFigures
    probe_version: str
    unsettled: pl.DataFrame
    num_recordings: int
    num_used: int
    num_found: int
    num_opened: int
    num_reused: int
    num_resumed: int = 0
    num_rows: int = 0
    num_left_out_rows: int = 0
    num_left_out_files: int = 0
    num_merged_rows: int = 0
    num_waiting_rows: int = 0
    num_cut_rows: int = 0
    num_other_paths: int = 0
    num_sidecars_alone: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, parts: ScannedParts, finished: ScanTotals, read: Callable[[Sequence[str] | None], pl.DataFrame]
    ) -> "Scan":
        """The result of a scan whose parts are finished."""
        return cls(
            read,
            finished.schema,
            finished.rejected,
            finished.figures,
            parts.probe_version,
            parts.unsettled,
            finished.num_recordings,
            finished.num_used,
            **asdict(parts.totals),
        )

    @property
    def recordings(self) -> pl.DataFrame:
        """The catalog's recordings, all of them in memory."""
        return self.read(None)

    @property
    def catalog(self) -> Catalog:
        """Both tables of the catalog, in memory."""
        return Catalog(self.recordings, self.rejected, self.probe_version)

    @property
    def num_unsettled(self) -> int:
        """Number of files that were left for the next scan."""
        return self.unsettled.height


def scan(  # noqa: PLR0913 - what a scan reads, and how it runs
    source: Source,
    previous: Catalog | None,
    settings: CatalogSettings,
    metadata: pl.DataFrame | MetadataTable | None = None,
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
    known = None if previous is None else known_of(previous)
    parts = scan_parts(source, known, settings, table_of(metadata), runtime or ScanRuntime(), checkpoint)
    with closing(parts):
        return _in_memory(parts)


def scan_settled(  # noqa: PLR0913 - as `scan`
    source: Source,
    previous: Catalog | None,
    settings: CatalogSettings,
    metadata: pl.DataFrame | MetadataTable | None = None,
    runtime: ScanRuntime | None = None,
    *,
    checkpoint: ScanCheckpoint | None = None,
) -> Scan:
    """Scan the source; if files changed recently, wait for them to settle and scan once more.

    It waits for at most `settle_seconds` + 1 s. Files that still change are left for the next scan.
    """
    known = None if previous is None else known_of(previous)
    parts = settled_parts(source, known, settings, table_of(metadata), runtime or ScanRuntime(), checkpoint)
    with closing(parts):
        return _in_memory(parts)


def settled_parts(  # noqa: PLR0913, PLR0917 - as `scan`
    source: Source,
    previous: EarlierScan | None,
    settings: CatalogSettings,
    metadata: MetadataTable | None,
    runtime: ScanRuntime,
    checkpoint: ScanCheckpoint | None = None,
    listed: EarlyListing | None = None,
) -> ScannedParts:
    """`scan_settled` part by part. The caller closes the result."""
    first = scan_parts(source, previous, settings, metadata, runtime, checkpoint, listed)
    if first.unsettled.is_empty():
        return first
    with closing(first):
        seconds = _seconds_to_settle(first.unsettled, settings.settle_seconds, runtime.clock())
        runtime.settling(first.unsettled.height, seconds)
        runtime.sleep(seconds)
        second = scan_parts(source, first.known(), settings, metadata, runtime, checkpoint)
    before, totals = first.totals, second.totals
    totals.num_reused -= before.num_opened + before.num_resumed
    totals.num_opened += before.num_opened
    totals.num_resumed += before.num_resumed
    for step, spent in before.seconds.items():
        totals.seconds[step] += spent
    return second


def known_of(catalog: Catalog) -> EarlierScan:
    """Results in a catalog in memory that a scan reuses."""
    decode = catalog.rejected.filter(pl.col("origin") == RejectSubject.DECODE)
    return EarlierScan(lambda: [facts_of(catalog.recordings, catalog.rejected)], decode, catalog.probe_version)


def table_of(metadata: pl.DataFrame | MetadataTable | None) -> MetadataTable | None:
    """A table in memory as one that is read in batches."""
    return TableInMemory(metadata) if isinstance(metadata, pl.DataFrame) else metadata


def _in_memory(parts: ScannedParts) -> Scan:
    """All parts of a scan in one table."""
    each = list(parts.finished())
    recordings = pl.concat([part.recordings for part in each]).sort("path", maintain_order=True)
    rejected = sorted_rejects(pl.concat([*parts.other_rejects, *(part.rejected for part in each)]))

    def read(columns: Sequence[str] | None) -> pl.DataFrame:
        return recordings if columns is None else recordings.select(columns)

    figures = RecordingFigures()
    figures.add(recordings)
    finished = ScanTotals(recordings.schema, rejected, figures, recordings.height, files_of(recordings).height)
    return Scan.of(parts, finished, read)


def _seconds_to_settle(unsettled: pl.DataFrame, settle_seconds: float, now_ns: int) -> float:
    newest = unsettled["mtime_ns"].max()
    remaining = (newest - now_ns) / _NS + settle_seconds if isinstance(newest, int) else 0.0
    return min(max(remaining, 0.0) + 0.05, settle_seconds + 1.0)
