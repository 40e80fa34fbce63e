"""The catalog: one row per recording, one row per refused file.

Owns the scan: list the source, open only what is new or changed, put the user's metadata beside it, and say of every
file what became of it. `plan_scan` and `headrace.catalog_rows` decide, purely; this module lists, waits and calls.
It writes no audio and knows no partitions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import polars as pl

from headrace import audio
from headrace.catalog_rows import accepted_and_rejected, decode_rejects, facts_of, sorted_rejects
from headrace.catalog_tables import FACT_SCHEMA, LISTING_SCHEMA, STAMP_SCHEMA
from headrace.fingerprints import combined_digest
from headrace.machine import num_cores
from headrace.probing import Probe, probe_files
from headrace.rejects import Origin
from headrace.sources import Listing, Source

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """What the user asks of a scan.

    Attributes:
        settle_seconds: a file changed less than this long ago may still be being written: it is left for the next scan.
        min_seconds: shorter recordings are refused.
        key_column: metadata column that gives keys; None derives every key from the path.
    """

    settle_seconds: float = 5.0
    min_seconds: float = 0.0
    key_column: str | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    """Both tables, sorted by path: `RECORDING_SCHEMA` and the user's columns; `REJECTED_SCHEMA`.

    Attributes:
        recordings: what can become samples.
        rejected: what cannot, with reasons.
        probe_version: the reader that refused what is refused; another one gets to try again.
    """

    recordings: pl.DataFrame
    rejected: pl.DataFrame
    probe_version: str

    @property
    def digest(self) -> str:
        """Fingerprint of all recordings: equal where nothing changed that can reach a shard."""
        return combined_digest(self.recordings["recording_digest"].sort())


@dataclass(frozen=True, slots=True)
class Scan:
    """A catalog and how it came about.

    Attributes:
        catalog: what there is now.
        unsettled: files left for the next scan (`STAMP_SCHEMA`).
        num_found: files of the source: recordings + rejected ones of origin `file` + unsettled.
        num_opened: files that were read.
        num_reused: files whose facts the previous catalog had.
        num_rows: rows of the user's table.
        seconds: how long each step took: `list`, `read`, `judge`.
    """

    catalog: Catalog
    unsettled: pl.DataFrame
    num_found: int
    num_opened: int
    num_reused: int
    num_rows: int = 0
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
    def num_unsettled(self) -> int:
        """How many files were left for the next scan."""
        return self.unsettled.height


@dataclass(frozen=True, slots=True)
class ScanRuntime:
    """How a scan runs. Nothing here changes what it finds in files that stand still.

    Attributes:
        clock: now, in nanoseconds since 1970.
        sleep: waits for so many seconds.
        num_threads: files that are read at a time.
        progress: called with (files read, files to read), in the caller's thread.
        settling: called with (files, seconds) before so many files are waited for.
        probe: reads a header.
        probe_version: names what the probe's verdicts depend on.
    """

    clock: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    num_threads: int = 4 * num_cores()
    progress: Callable[[int, int], None] = lambda done, total: None  # noqa: ARG005
    settling: Callable[[int, float], None] = lambda num_files, seconds: None  # noqa: ARG005
    probe: Probe = audio.probe
    probe_version: Callable[[], str] = audio.codec_version


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a listing calls for.

    Attributes:
        known: files that need not be opened (`FACT_SCHEMA`): unchanged ones, and those that the listing refused.
        num_reused: how many of `known` are unchanged ones.
        to_open: new and changed files (`STAMP_SCHEMA`).
        unsettled: new and changed files that are too young (`STAMP_SCHEMA`).
    """

    known: pl.DataFrame
    num_reused: int
    to_open: pl.DataFrame
    unsettled: pl.DataFrame


def plan_scan(listing: pl.DataFrame, facts: pl.DataFrame, settle_ns: int, now_ns: int) -> ScanPlan:
    """Sort a listing into what is known, what to open and what to leave.

    Unchanged means the same path, size and time of change. A time of change in the future, by a clock ahead of ours, is
    young only within the same span, so that a wrong date does not shut a file out for years.
    """
    listed = listing.filter(pl.col("code").is_null()).select(*STAMP_SCHEMA)
    refused = listing.filter(pl.col("code").is_not_null())
    stamp = list(STAMP_SCHEMA)
    known = facts.join(listed, on=stamp, how="semi")
    new = listed.join(facts, on=stamp, how="anti")
    is_young = (pl.col("mtime_ns") - now_ns).abs() < settle_ns
    return ScanPlan(
        known=pl.concat([known, refused], how="diagonal"),
        num_reused=known.height,
        to_open=new.filter(~is_young),
        unsettled=new.filter(is_young),
    )


def scan(
    source: Source,
    previous: Catalog | None,
    settings: CatalogSettings,
    metadata: pl.DataFrame | None = None,
    runtime: ScanRuntime | None = None,
) -> Scan:
    """Look at the source once and say what recordings there are.

    Args:
        source: what to list and read.
        previous: the catalog of an earlier scan: what has not changed since is not opened.
        settings: what the user asks for.
        metadata: the user's table (`headrace.metadata.read_metadata`): a column `path`, perhaps `key`, and any others.
        runtime: threads, clock, progress.

    Raises:
        ConfigError: the user's table lacks `path` or has a column that cannot be kept.
    """
    runtime = runtime or ScanRuntime()
    watch = _Stopwatch()
    version = runtime.probe_version()
    now_ns = runtime.clock()
    listing = pl.concat([_table(Listing()), *map(_table, source.list())])
    watch.lap("list")
    plan = plan_scan(listing, _remembered(previous, version), round(settings.settle_seconds * _NS), now_ns)
    watch.lap("plan")
    probed = probe_files(source, plan.to_open, runtime.probe, runtime.num_threads, runtime.progress)
    watch.lap("read")
    unsettled = pl.concat([plan.unsettled, probed.changing]).sort("path")
    facts = pl.concat([plan.known, probed.facts])
    keys, least = settings.key_column, settings.min_seconds
    recordings, rejected = accepted_and_rejected(facts, metadata, unsettled["path"], min_seconds=least, key_column=keys)
    catalog = Catalog(recordings, _with_old_decode_faults(rejected, recordings, previous), version)
    watch.lap("judge")
    num_rows = 0 if metadata is None else metadata.height
    return Scan(catalog, unsettled, listing.height, plan.to_open.height, plan.num_reused, num_rows, watch.seconds)


def scan_settled(
    source: Source,
    previous: Catalog | None,
    settings: CatalogSettings,
    metadata: pl.DataFrame | None = None,
    runtime: ScanRuntime | None = None,
) -> Scan:
    """Like `scan`, for a build that runs once: waits for young files to settle, and scans again, once.

    It waits at most `settle_seconds` and one second. Files that still change then are left for the next scan.
    """
    runtime = runtime or ScanRuntime()
    first = scan(source, previous, settings, metadata, runtime)
    if not first.num_unsettled:
        return first
    seconds = _seconds_to_settle(first.unsettled, settings.settle_seconds, runtime.clock())
    runtime.settling(first.num_unsettled, seconds)
    runtime.sleep(seconds)
    second = scan(source, first.catalog, settings, metadata, runtime)
    return replace(
        second,
        num_opened=first.num_opened + second.num_opened,
        num_reused=second.num_reused - first.num_opened,
        seconds={step: first.seconds[step] + second.seconds[step] for step in second.seconds},
    )


def with_decode_rejects(catalog: Catalog, faults: pl.DataFrame) -> Catalog:
    """The catalog with the faults that decoding showed: rows of origin `decode`, instead of those that it had.

    Args:
        catalog: its recordings stay as they are: a header that is sound stays a found recording.
        faults: `path`, `code`, `reason` of recordings that no shard could take.
    """
    others = catalog.rejected.filter(pl.col("origin") != Origin.DECODE)
    return replace(catalog, rejected=sorted_rejects(pl.concat([others, decode_rejects(catalog.recordings, faults)])))


def _table(listing: Listing) -> pl.DataFrame:
    """A chunk of a listing (`LISTING_SCHEMA`)."""
    return pl.DataFrame({name: getattr(listing, name) for name in LISTING_SCHEMA}, schema=LISTING_SCHEMA)


def _remembered(previous: Catalog | None, probe_version: str) -> pl.DataFrame:
    """Facts of the earlier scan; refusals only if the same reader made them."""
    if previous is None:
        return pl.DataFrame(schema=FACT_SCHEMA)
    facts = facts_of(previous.recordings, previous.rejected)
    return facts if previous.probe_version == probe_version else facts.filter(pl.col("code").is_null())


def _with_old_decode_faults(rejected: pl.DataFrame, recordings: pl.DataFrame, previous: Catalog | None) -> pl.DataFrame:
    """What decoding showed of bytes that are still the same stays said, so that a scan changes no table by itself."""
    if previous is None:
        return rejected
    faults = previous.rejected.filter(pl.col("origin") == Origin.DECODE)
    return sorted_rejects(pl.concat([rejected, decode_rejects(recordings, faults)])) if faults.height else rejected


def _seconds_to_settle(unsettled: pl.DataFrame, settle_seconds: float, now_ns: int) -> float:
    newest = unsettled["mtime_ns"].max()
    remaining = (newest - now_ns) / _NS + settle_seconds if isinstance(newest, int) else 0.0
    return min(max(remaining, 0.0) + 0.05, settle_seconds + 1.0)


class _Stopwatch:
    """Seconds per step, by the monotonic clock."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = now - self._last
        self._last = now
