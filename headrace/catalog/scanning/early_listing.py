"""A listing of a source that was made before its scan, to find out whether the scan is needed at all.

If it is needed, the scan takes the listing, so that the source is listed once. Nothing is decided here:
`headrace.catalog.stored.unchanged` compares the listing with the catalog.
"""

import time
from contextlib import closing
from dataclasses import dataclass

import polars as pl

from headrace.catalog.rows.schemas import LISTING_SCHEMA
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.tables.buckets import PartTables
from headrace.sources.listing import GatheredStamps, Listing, SourceStamps, stamps_of
from headrace.sources.sources import Source


@dataclass(frozen=True, slots=True)
class EarlyListing:
    """The files of a source. `close` deletes its temporary file.

    Attributes:
        began_ns: time before the listing, nanoseconds since 1970.
        chunks: the listing (`LISTING_SCHEMA`), table by table.
        stamps: the stamps of all files.
        seconds: duration of the listing.
    """

    began_ns: int
    chunks: PartTables
    stamps: SourceStamps
    seconds: float

    def unopened(self) -> pl.DataFrame:
        """The entries that cannot be opened: `path`, `code`, `reason`."""
        coded = (chunk.filter(pl.col("code").is_not_null()) for chunk in self.chunks)
        return pl.concat([pl.DataFrame(schema=LISTING_SCHEMA), *coded]).select("path", "code", "reason")

    def close(self) -> None:
        """Forget the listing."""
        self.chunks.close()


def list_early(source: Source, runtime: ScanRuntime) -> EarlyListing:
    """List a source."""
    began_ns, start = runtime.clock(), time.perf_counter()
    with closing(GatheredStamps()) as stamps:
        chunks = PartTables(runtime.table_bytes)
        for chunk in source.list():
            chunks.append(listing_table(chunk))
            stamps.add(stamps_of(chunk.path, chunk.num_bytes, chunk.mtime_ns, chunk.ctime_ns))
        return EarlyListing(began_ns, chunks, stamps.all(), time.perf_counter() - start)


def listing_table(listing: Listing) -> pl.DataFrame:
    """A chunk of a listing (`LISTING_SCHEMA`)."""
    return pl.DataFrame({name: getattr(listing, name) for name in LISTING_SCHEMA}, schema=LISTING_SCHEMA)
