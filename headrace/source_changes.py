"""Whether a source differs from what its catalog says, without opening a file of it.

Owns that comparison, and listing a source within a bound of time. It decides nothing about what a difference costs:
`headrace.catalog` scans, `headrace.reconcile` says what is stale.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from headrace.catalog_files import CATALOG_PATH, REJECTED_PATH, read_columns
from headrace.catalog_tables import STAMP_SCHEMA, Origin
from headrace.sources import Source
from headrace.storage import Storage

_NS = 1_000_000_000
_STAMP = list(STAMP_SCHEMA)
_SLICE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class SourceDifference:
    """A listing against a catalog.

    Attributes:
        is_changed: whether a file that stands still is new, changed or gone.
        num_waiting: files that changed too lately to be looked at.
        digest: of what the source holds but for those; equal digests ask for the same scan.
    """

    is_changed: bool
    num_waiting: int
    digest: str


def list_within(source: Source, seconds: float, clock: Callable[[], float] = time.monotonic) -> pl.DataFrame | None:
    """The whole listing (`STAMP_SCHEMA`, sorted by path); None when it takes longer than `seconds`.

    Time is looked at after every chunk of the source, so the bound is passed by one chunk at most.
    """
    deadline = clock() + seconds
    chunks = [pl.DataFrame(schema=STAMP_SCHEMA)]
    for chunk in source.list():
        chunks.append(chunk.select(_STAMP))
        if clock() > deadline:
            return None
    return pl.concat(chunks).sort("path")


def stamps_digest(stamps: pl.DataFrame) -> str:
    """Fingerprint of a listing: equal where every file has the same path, size and time of change."""
    digest = hashlib.sha256()
    for piece in stamps.iter_slices(_SLICE_ROWS):  # never all rows as text
        digest.update(piece.write_csv(include_header=False).encode())
    return digest.hexdigest()[:32]


def catalogued(output: Storage) -> pl.DataFrame | None:
    """What the stored catalog says was listed (`STAMP_SCHEMA`, sorted by path); None where there is none.

    Reads three columns, so that a look at a large catalog stays cheap.
    """
    recordings = read_columns(output, CATALOG_PATH, _STAMP)
    rejected = read_columns(output, REJECTED_PATH, [*_STAMP, "origin"])
    if recordings is None or rejected is None:
        return None
    files = rejected.filter(pl.col("origin") == Origin.FILE).select(_STAMP)
    return pl.concat([recordings, files]).sort("path")


def source_difference(
    listing: pl.DataFrame, known: pl.DataFrame | None, settle_seconds: float, now_ns: int
) -> SourceDifference:
    """Compare a listing with the catalog's; files that changed less than `settle_seconds` ago are left out of both.

    A time of change in the future is young only within the same span, as in `headrace.catalog.plan_scan`. Pure.

    Args:
        listing: `STAMP_SCHEMA`, sorted by path.
        known: the same of the catalog; None before the first scan, which an empty source waits for too.
        settle_seconds: see `SourceConfig`.
        now_ns: nanoseconds since 1970.
    """
    there = pl.DataFrame(schema=STAMP_SCHEMA) if known is None else known
    is_young = (pl.col("mtime_ns") - now_ns).abs() < round(settle_seconds * _NS)
    candidates = listing.filter(is_young)
    known_ones = there.filter(_is_one_of(candidates["path"]))  # few: whole tables are never joined
    young = candidates.join(known_ones, on=_STAMP, how="anti", nulls_equal=True)["path"]
    settled = listing.filter(~_is_one_of(young)) if len(young) else listing
    expected = there.filter(~_is_one_of(young)) if len(young) else there
    is_changed = known is None or not settled.equals(expected)
    return SourceDifference(is_changed, len(young), stamps_digest(settled))


def _is_one_of(paths: pl.Series) -> pl.Expr:
    return pl.col("path").is_in(paths.implode())
