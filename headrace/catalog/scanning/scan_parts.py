"""Scans a source part by part: lists it, reads new and changed files, and joins the metadata.

No table of a scan needs to fit in memory. Each is divided by the hash of the path (`headrace.catalog.tables.buckets`),
and the parts are planned, judged and finished one after the other. What must be known of all parts at once is small:
hashes of keys and contents (`headrace.catalog.judging.rivals`), rejected rows, and files that have not settled. With
named audio fields (`source.fields`) a row names files of several parts; `headrace.catalog.scanning.field_lookup` finds
them.

The decisions are pure functions: `plan_scan` decides which files to read, `headrace.catalog.judging.acceptance` and
`headrace.catalog.judging.row_acceptance` decide which files and rows are accepted.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from headrace.catalog.judging.acceptance import (
    NO_FILES,
    CatalogSettings,
    FileVerdicts,
    decide_files,
    decode_rejects,
    finish_files,
    judge_files,
    rejected_rows,
    unknown_exclusions,
    with_rejects,
)
from headrace.catalog.judging.rivals import RivalFinder, verdicts, with_verdicts
from headrace.catalog.judging.row_acceptance import IS_CUT, FileUses, decide_rows, finish_rows, judge_rows, named_files
from headrace.catalog.judging.row_fields import FieldFacts
from headrace.catalog.rows.metadata_columns import check_path_columns, check_sidecar_columns, with_path_columns
from headrace.catalog.rows.metadata_rows import (
    DifferingRows,
    TableReader,
    TableSettings,
    with_namesakes,
)
from headrace.catalog.rows.row_columns import PLACE, ROW_NUMBER, row_said
from headrace.catalog.rows.schemas import CONTENT, FACT_SCHEMA, STAMP_SCHEMA, contents
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.early_listing import EarlyListing, listing_table
from headrace.catalog.scanning.probing import Probing, probe_files
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_tables import EarlierScan, ScanTables
from headrace.catalog.scanning.sidecars import FAULT
from headrace.catalog.tables.buckets import ALL, Buckets, PartTables, bucket_of_paths
from headrace.catalog.tables.metadata_files import MetadataTable
from headrace.format.rejects import RejectReason, RejectSubject
from headrace.sources.listing import concatenated
from headrace.sources.sources import Source

_NS = 1_000_000_000


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
    is_young = _is_young(pl.col("mtime_ns"), settle_ns, now_ns)
    return ScanPlan(
        known=pl.concat([known, rejected], how="diagonal"),
        num_reused=known.height,
        to_open=new.filter(~is_young),
        unsettled=new.filter(is_young),
    )


def _is_young(mtime_ns: pl.Expr, settle_ns: int, now_ns: int) -> pl.Expr:
    return mtime_ns.is_between(now_ns - settle_ns, now_ns + settle_ns, closed="none")


def _holding(plan: ScanPlan, listing: pl.DataFrame, held: pl.DataFrame) -> ScanPlan:
    """A plan that leaves more files for the next scan: recordings that wait for a sidecar.

    Their time is that of the sidecar, so that a scan waits for it.
    """
    others = held.join(plan.unsettled, on="path", how="anti").rename({"mtime_ns": "\0held"})
    waiting = listing.filter(pl.col("code").is_null()).join(others, on="path", maintain_order="left")
    unsettled = waiting.with_columns(mtime_ns="\0held").select(*STAMP_SCHEMA)
    is_other = ~pl.col("path").is_in(unsettled["path"].implode())
    known = plan.known.filter(is_other)
    return ScanPlan(
        known=known,
        num_reused=plan.num_reused - (plan.known.height - known.height),
        to_open=plan.to_open.filter(is_other),
        unsettled=pl.concat([plan.unsettled, unsettled]),
    )


@dataclass(slots=True)
class ScanTotals:
    """Numbers of a scan, see `headrace.catalog.scanning.scan.Scan`."""

    num_found: int = 0
    num_opened: int = 0
    num_reused: int = 0
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


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """The recordings of a part, sorted by path (rows by path, span and row), and its rejected files and rows."""

    recordings: pl.DataFrame
    rejected: pl.DataFrame


class ScannedParts:
    """The result of a scan, part by part, in temporary files if it is large. `close` deletes them.

    Attributes:
        totals: numbers of the scan.
        unsettled: files left for the next scan (`STAMP_SCHEMA`).
        left_out: files that only rows name that `source.where` leaves out, and sidecars.
        probe_version: version of the probe that read the files.
    """

    def __init__(
        self, tables: ScanTables, totals: ScanTotals, unsettled: pl.DataFrame, known: EarlierScan | None
    ) -> None:
        """Only `scan_parts` makes values."""
        self.totals = totals
        self.unsettled = unsettled
        self.left_out = concatenated([*tables.left_out, *tables.sidecars.stamps])
        self.probe_version = tables.probe_version
        self._tables = tables
        self._previous = known
        self._others = PartTables(tables.most_bytes)  # rejects that no finished part has
        self._waiting = Buckets(NO_FILES.schema, tables.most_bytes)  # files of rows that wait for another file
        self._candidates = PartTables(tables.most_bytes)
        self._unmatched = PartTables(tables.most_bytes)  # rows of the metadata without a file, until all are known
        self._verdicts = pl.DataFrame()
        self._shared = pl.Series(dtype=pl.String)  # audio of more than one accepted candidate

    @property
    def other_rejects(self) -> Iterable[pl.DataFrame]:
        """Rejected files, rows and keys that are in no finished part (`REJECTED_SCHEMA`), table by table."""
        return self._others

    def finished(self) -> Iterator[FinishedPart]:
        """Each part. May be called again, which computes the parts again."""
        return map(self._finished, range(len(self._tables.parts)))

    def recordings(self) -> Iterator[pl.DataFrame]:
        """The recordings of each part."""
        return (part.recordings for part in self.finished())

    def with_shared_audio(self) -> Iterator[pl.DataFrame]:
        """Accepted candidates of each part whose audio others have too, with the user's columns."""
        for candidates in self._candidates if len(self._shared) else ():
            judged = with_verdicts(candidates, self._verdicts, self._name)
            accepted = judged.filter(pl.col("code").is_null())
            users = [name for name in accepted.columns if not name.startswith("\0")]
            yield accepted.select(users).filter(contents(accepted).is_in(self._shared.implode()))

    def known(self) -> EarlierScan:
        """Results of this scan that a scan directly after it reuses."""
        decode = pl.DataFrame() if self._previous is None else self._previous.decode
        return EarlierScan(self._good_facts, decode, self.probe_version, self._tables.sidecars.contents)

    def close(self) -> None:
        """Delete the temporary files."""
        self._tables.close()
        self._candidates.close()
        self._unmatched.close()
        self._others.close()
        self._waiting.close()

    def judge(self) -> None:
        """Judge all parts, and decide between rivals of different parts."""
        tables, settings = self._tables, self._tables.settings
        finder, unknown = RivalFinder(), settings.excluded
        for number in range(len(tables.parts)):
            judged = self._judged(number)
            candidates, num_other = with_path_columns(judged.candidates, settings.path_columns)
            judged = replace(judged, candidates=self._with_sidecars(candidates, number))
            self.totals.num_other_paths += num_other
            finder.add(judged.candidates)
            self._unmatched.append(judged.unmatched)
            unknown &= judged.unknown
            self._others.append(judged.rejected)
            tables.add(self._waiting, judged.waiting)
            self.totals.num_waiting_rows += judged.num_waiting
            if tables.is_of_rows:
                self.totals.num_cut_rows += _num_cut(judged.candidates)
            if tables.lookup is not None:
                tables.lookup.name(judged.candidates)
            self._candidates.append(judged.candidates)
        for lost in with_namesakes(self._unmatched, tables.all_paths):
            self._others.append(rejected_rows(lost, RejectSubject.METADATA))
        self._unmatched.close()
        self._others.append(rejected_rows(unknown_exclusions(sorted(unknown)), RejectSubject.EXCLUDE))
        columns = dict.fromkeys([self._name, "path", "key", *CONTENT, "code", "reason"])  # each once
        rivals = finder.found(lambda: self._candidates, [*columns, *([IS_CUT, PLACE] if tables.is_of_rows else [])])
        if rivals.is_empty():
            return
        decided = (decide_rows if tables.is_of_rows else decide_files)(rivals, settings)
        if tables.is_of_rows:
            self.totals.num_cut_rows += _num_cut(decided) - _num_cut(rivals)
        self._verdicts = verdicts(decided, self._name)
        audio = contents(decided.filter(pl.col("code").is_null()))
        self._shared = audio.filter(audio.is_duplicated()).unique()

    @property
    def _name(self) -> str:
        """Name of the column that identifies a candidate."""
        return ROW_NUMBER if self._tables.is_of_rows else "path"

    def _with_sidecars(self, candidates: pl.DataFrame, number: int) -> pl.DataFrame:
        """Candidates with the columns of their sidecars; those with an invalid sidecar are rejected."""
        joined = self._tables.sidecars.joined(candidates, self._tables.parts[number])
        if FAULT not in joined.columns:
            return joined
        reason = row_said("names {}: {}", pl.col("path"), pl.col(FAULT)) if self._tables.is_of_rows else pl.col(FAULT)
        return with_rejects(joined, pl.col(FAULT).is_not_null(), RejectReason.BAD_SIDECAR, reason).drop(FAULT)

    def _judged(self, number: int) -> FileVerdicts:
        tables, part = self._tables, self._tables.parts[number]
        unsettled = self.unsettled["path"]
        if not self.unsettled.is_empty() and part != ALL:
            unsettled = unsettled.filter(bucket_of_paths(unsettled).is_between(part.start, part.stop - 1))
        facts, rows = tables.facts(number), tables.prepared(part)
        if not tables.is_of_rows:
            return judge_files(facts, rows, unsettled, tables.settings)
        if tables.lookup is None:
            return judge_rows(facts, rows, unsettled, tables.settings)
        answers = tables.lookup.answers(part)
        rows = replace(rows, table=answers.spelled(rows.table))
        return judge_rows(facts, rows, unsettled, tables.settings, FieldFacts(answers.facts, self.unsettled["path"]))

    def _finished(self, number: int) -> FinishedPart:
        candidates = with_verdicts(self._candidates[number], self._verdicts, self._name)
        finish = self._finished_rows if self._tables.is_of_rows else self._finished_files
        recordings, rejected = finish(number, candidates)
        if self._previous is not None and self._previous.decode.height:
            rejected = pl.concat([rejected, decode_rejects(recordings, self._previous.decode)])
        return FinishedPart(recordings, rejected)

    def _finished_files(self, _: int, candidates: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        return finish_files(candidates, self._tables.settings)

    def _finished_rows(self, number: int, candidates: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        part, lookup, facts = self._tables.parts[number], self._tables.lookup, self._tables.facts(number)
        named, of_fields = named_files(candidates), facts
        if lookup is not None:
            named = with_verdicts(lookup.named(part), self._verdicts, self._name)
            of_fields = pl.concat([facts, lookup.answers(part).facts]).unique("path", maintain_order=True)
        uses = FileUses(named, self._waiting.part(part))
        return finish_rows(candidates, facts, of_fields, uses, self._tables.settings)

    def _good_facts(self) -> Iterator[pl.DataFrame]:
        for number in range(len(self._tables.parts)):
            yield self._tables.facts(number).filter(pl.col("sha256").is_not_null())


def scan_parts(  # noqa: PLR0913, PLR0917 - what a scan reads, and how it runs
    source: Source,
    previous: EarlierScan | None,
    settings: CatalogSettings,
    metadata: MetadataTable | None,
    runtime: ScanRuntime,
    checkpoint: ScanCheckpoint | None = None,
    listed: EarlyListing | None = None,
) -> ScannedParts:
    """Scan the source once. Arguments and errors are those of `headrace.catalog.scanning.scan.scan`.

    A source that has been listed just before (`listed`) is not listed again.
    """
    watch = _Stopwatch()
    totals = ScanTotals(seconds=watch.seconds)
    how_read = TableSettings(settings.samples, settings.columns, settings.fields, source.uri, settings.where)
    table = TableReader(metadata, how_read)
    check_path_columns(settings.path_columns, table.schema)
    tables = ScanTables(settings, table, runtime.probe_version(), runtime.table_bytes)
    with ExitStack() as stack:
        stack.callback(tables.close)
        now_ns = runtime.clock() if listed is None else listed.began_ns
        for chunk in map(listing_table, source.list()) if listed is None else listed.chunks:
            tables.add_listing(chunk)
        watch.lap("list", 0.0 if listed is None else listed.seconds)
        known = () if previous is None else previous.sidecars()
        is_young = partial(_is_young, settle_ns=round(settings.settle_seconds * _NS), now_ns=now_ns)
        tables.sidecars.read(source, runtime.workers, known, is_young)
        if settings.rows is not None:
            table = TableReader(tables.sidecars.intervals(), how_read)
            tables.use_rows(table)
        check_sidecar_columns(tables.sidecars.schema, table.schema, settings.path_columns)
        tables.read(previous, checkpoint)
        unsettled = [*_planned(tables, totals, now_ns)]
        if totals.num_resumed:
            runtime.resuming(totals.num_resumed)
        watch.lap("plan")
        how = Probing(runtime.probe, tables.probe_version, runtime.workers, runtime.progress, checkpoint)
        store = partial(tables.add, tables.probed)
        unsettled.append(probe_files(source, tables.files_to_open(), totals.num_opened, how, store))
        watch.lap("read")
        tables.answer()
        scanned = ScannedParts(tables, totals, pl.concat(unsettled).sort("path"), previous)
        scanned.judge()
        watch.lap("judge")
        stack.pop_all()
        return scanned


def _planned(tables: ScanTables, totals: ScanTotals, now_ns: int) -> Iterator[pl.DataFrame]:
    """Plan each part, and check the metadata rows. Returns the files to leave for the next scan."""
    settle_ns = round(tables.settings.settle_seconds * _NS)
    differing = DifferingRows()
    for part in tables.parts:
        rows = tables.prepared(part)
        differing.add(rows)
        if tables.lookup is not None:
            tables.lookup.ask(rows.table)
        remembered, resumed = tables.earlier_facts(part)
        listing = tables.listed(part)
        plan = plan_scan(listing, pl.concat([remembered, resumed]), settle_ns, now_ns)
        if not tables.sidecars.held.is_empty():
            plan = _holding(plan, listing, tables.sidecars.held)
        num_resumed = resumed.join(listing, on=list(STAMP_SCHEMA), how="semi").height
        totals.num_merged_rows += rows.num_merged
        totals.num_resumed += num_resumed
        totals.num_reused += plan.num_reused - num_resumed
        tables.known.append(plan.known.select(*FACT_SCHEMA))
        tables.open_later(plan.to_open, listing)
        yield plan.unsettled
    differing.check(tables.table.schema)
    tables.forget_earlier()
    totals.num_found, totals.num_rows = tables.listing.num_rows, tables.table.num_rows
    totals.num_left_out_rows, totals.num_left_out_files = tables.table.num_left_out, sum(map(len, tables.left_out))
    totals.num_opened = tables.to_open.num_rows
    totals.num_sidecars_alone = tables.sidecars.num_alone


def _num_cut(candidates: pl.DataFrame) -> int:
    """Accepted rows whose span was cut."""
    return int(candidates.filter(pl.col("code").is_null())[IS_CUT].sum())


class _Stopwatch:
    """Measures the seconds of each step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, step: str, before: float = 0.0) -> None:
        now = time.perf_counter()
        self.seconds[step] = before + now - self._last
        self._last = now
