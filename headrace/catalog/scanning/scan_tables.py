"""The tables of a scan, divided by the hash of the path (`headrace.catalog.tables.buckets`); large ones are files."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.rows.metadata_rows import MetadataRows, TableReader, prepared_rows
from headrace.catalog.rows.path_spelling import spelled_as_files
from headrace.catalog.rows.row_columns import path_columns
from headrace.catalog.rows.row_paths import ListedPaths
from headrace.catalog.rows.schemas import FACT_SCHEMA, LISTING_SCHEMA, STAMP_SCHEMA, ColumnTypes
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.field_lookup import FieldLookup
from headrace.catalog.scanning.probing import still_valid
from headrace.catalog.scanning.sidecars import Sidecars
from headrace.catalog.tables.buckets import (
    ALL,
    Buckets,
    PartTables,
    bucket_of_numbers,
    bucket_of_paths,
    parts_of,
)
from headrace.config.source import SampleKind
from headrace.sources.listing import SourceStamps, stamps_of

_IS_LEFT_OUT = "\0is_left_out"
_NUMBER = "\0number"  # of a file in the listing


@dataclass(frozen=True, slots=True)
class EarlierScan:
    """Results of an earlier scan that this scan reuses.

    Attributes:
        facts: reads the facts of the files (`FACT_SCHEMA`), table by table; a path may be in several.
        decode: rejected rows of origin `decode` (`REJECTED_SCHEMA`).
        probe_version: version of the probe that read the files.
        sidecars: reads the contents of sidecars (`CONTENT_SCHEMA`), table by table.
    """

    facts: Callable[[], Iterable[pl.DataFrame]]
    decode: pl.DataFrame
    probe_version: str
    sidecars: Callable[[], Iterable[pl.DataFrame]] = tuple


class ScanTables:
    """The tables of a scan, each divided by path.

    Attributes:
        settings: the settings of the scan.
        table: reads the metadata table.
        probe_version: version of the probe.
        parts: the buckets of each part.
        left_out: stamps of the files that only rows name which `source.where` leaves out, of each part that was listed.
        sidecars: files beside recordings, which are not listed.
        lookup: finds the files of other parts that rows name; None if rows name one file each.
        most_bytes: as in `Buckets`.
    """

    def __init__(self, settings: CatalogSettings, table: TableReader, probe_version: str, table_bytes: int) -> None:
        self.settings, self.table, self.probe_version = settings, table, probe_version
        self.most_bytes = table_bytes
        self.lookup = FieldLookup(list(settings.fields), table_bytes) if len(settings.fields) > 1 else None
        self.parts: list[range] = [ALL]
        facts = pl.Schema(FACT_SCHEMA)
        self.listing = Buckets(pl.Schema(ColumnTypes({**LISTING_SCHEMA, _NUMBER: pl.UInt32})), self.most_bytes)
        self._listed = ListedPaths()
        self.sidecars = Sidecars(settings.sidecars, settings.types, table_bytes, settings.rows)
        self.rows = Buckets(table.schema, self.most_bytes)
        self.named = Buckets(pl.Schema({"path": pl.String, _IS_LEFT_OUT: pl.Boolean}), self.most_bytes)
        self.left_out: list[SourceStamps] = []
        self.remembered = Buckets(facts, self.most_bytes)
        self.kept = Buckets(facts, self.most_bytes)
        self.known = PartTables(self.most_bytes)
        self.to_open = Buckets(pl.Schema(ColumnTypes({**STAMP_SCHEMA, _NUMBER: pl.UInt32})), self.most_bytes)
        self.probed = Buckets(facts, self.most_bytes)

    @property
    def is_of_rows(self) -> bool:
        """Whether rows are samples."""
        return self.settings.samples == SampleKind.ROWS

    def use_rows(self, table: TableReader) -> None:
        """Use another metadata table. Called before `read`."""
        self.rows.close()
        self.table, self.rows = table, Buckets(table.schema, self.most_bytes)

    def add(self, buckets: Buckets, table: pl.DataFrame) -> None:
        """Add rows to one of the tables."""
        buckets.add(table, bucket_of_paths(table["path"]))

    def add_listing(self, listing: pl.DataFrame) -> None:
        """Add files of the source (`LISTING_SCHEMA`)."""
        listing = self.sidecars.take(listing)
        start = self.listing.num_rows
        numbers = pl.int_range(start, start + pl.len(), dtype=pl.UInt32)
        self.add(self.listing, listing.with_columns(numbers.alias(_NUMBER)))
        if self.table.has_folders:
            self._listed.add(listing["path"])

    def read(self, previous: EarlierScan | None, checkpoint: ScanCheckpoint | None) -> None:
        """Read the metadata and the facts of earlier scans, then decide about the parts."""
        for batch, left_out in self.table.batches(self._listed.are_in if self.table.has_folders else None):
            self.add(self.rows, batch)
            for rows in (batch, left_out) if self.settings.where is not None else ():
                for name in path_columns(rows):
                    paths = rows.select(pl.col(name).alias("path"), pl.lit(rows is left_out).alias(_IS_LEFT_OUT))
                    self.add(self.named, paths.drop_nulls())
        if previous is not None:
            for facts in previous.facts():
                self.add(self.remembered, still_valid(facts, previous.probe_version, self.probe_version))
        for facts in () if checkpoint is None else checkpoint.tables(self.probe_version):
            self.add(self.kept, facts)
        self.parts = parts_of([self.listing, self.rows, self.named, self.remembered, self.kept], self.most_bytes)

    def listed(self, part: range) -> pl.DataFrame:
        """The listing of a part, without files that only rows name which `source.where` leaves out. Called once."""
        listing = self.listing.part(part)
        if self.settings.where is None:
            return listing
        named = self.named.part(part)
        named = named.with_columns(spelled_as_files(named["path"], listing["path"]))
        left_out = named.group_by("path").agg(pl.col(_IS_LEFT_OUT).all()).filter(_IS_LEFT_OUT)
        files = listing.join(left_out, on="path", how="semi")
        self.left_out.append(stamps_of(*(files[name] for name in STAMP_SCHEMA)))
        return listing.join(left_out, on="path", how="anti", maintain_order="left")

    def open_later(self, files: pl.DataFrame, listing: pl.DataFrame) -> None:
        """Add new and changed files (`STAMP_SCHEMA`) of the listing of a part."""
        numbered = files.join(listing.select("path", _NUMBER), on="path")
        self.to_open.add(numbered, bucket_of_numbers(numbered[_NUMBER], self.listing.num_rows))

    def files_to_open(self) -> Iterator[pl.DataFrame]:
        """The files to open, in the order of the listing: the recordings of a container follow each other."""
        for part in parts_of([self.to_open], self.most_bytes):
            yield self.to_open.part(part).sort(_NUMBER)

    def prepared(self, part: range) -> MetadataRows:
        """The metadata rows of a part, prepared for the join."""
        return prepared_rows(self.rows.part(part), self.settings.samples, self.listing.part(part)["path"])

    def earlier_facts(self, part: range) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Facts of files of a part from the last scan, and those that only an interrupted scan has."""
        remembered = self.remembered.part(part).unique("path", keep="first", maintain_order=True)
        stamp = list(STAMP_SCHEMA)
        kept = self.kept.part(part).unique(stamp, keep="first", maintain_order=True)
        return remembered, kept.join(remembered, on=stamp, how="anti")

    def forget_earlier(self) -> None:
        """Forget the tables that only the plan needs."""
        self.remembered.close()
        self.kept.close()

    def facts(self, number: int) -> pl.DataFrame:
        """Facts of all files of a part (`FACT_SCHEMA`) that are not left for the next scan, sorted by path."""
        return pl.concat([self.known[number], self.probed.part(self.parts[number])]).sort("path")

    def answer(self) -> None:
        """Let each part answer what rows of other parts asked for."""
        if self.lookup is not None:
            for number, part in enumerate(self.parts):
                self.lookup.answer(part, self.listing.part(part)["path"], self.facts(number))

    def all_paths(self) -> Iterator[pl.Series]:
        """Paths of all files of the source, part by part."""
        for part in self.parts:
            yield self.listing.part(part)["path"]

    def close(self) -> None:
        """Delete the temporary files."""
        for table in (self.listing, self.rows, self.named, self.remembered, self.kept, self.probed):
            table.close()
        self.sidecars.close()
        self.known.close()
        self.to_open.close()
        if self.lookup is not None:
            self.lookup.close()
