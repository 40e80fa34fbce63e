"""Whether a source differs from what its catalog says, without opening a file of it.

Owns that comparison, and listing a source within a bound of time. It decides nothing about what a difference costs:
`headrace.catalog` scans, `headrace.reconcile` says what is stale.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.sources import Source
from headrace.stamps import ABSENT, Stamps, joined, stamps_of

_NS = 1_000_000_000


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


def list_within(source: Source, seconds: float, clock: Callable[[], float] = time.monotonic) -> Stamps | None:
    """The whole listing; None when it takes longer than `seconds`.

    Time is looked at after every chunk of the source, so the bound is passed by one chunk at most.
    """
    deadline = clock() + seconds
    chunks = []
    for chunk in source.list():
        chunks.append(stamps_of(chunk.path, chunk.num_bytes, chunk.mtime_ns))
        if clock() > deadline:
            return None
    return joined(chunks)


def source_difference(listing: Stamps, known: Stamps | None, settle_seconds: float, now_ns: int) -> SourceDifference:
    """Compare a listing with the catalog's; files that changed less than `settle_seconds` ago are left out of both.

    A time of change in the future is young only within the same span, as in `headrace.catalog.plan_scan`. Pure.

    Args:
        listing: what the source holds.
        known: what the catalog says of it; None before the first scan, which an empty source waits for too.
        settle_seconds: see `SourceConfig`.
        now_ns: nanoseconds since 1970.
    """
    there = stamps_of((), (), ()) if known is None else known
    is_recent = (np.abs(listing.mtime_ns - now_ns) < round(settle_seconds * _NS)) & (listing.num_bytes != ABSENT)
    is_young = is_recent & ~listing.are_in(there)
    settled = listing.where(~is_young)
    expected = there.where(~np.isin(there.paths, listing.paths[is_young]))
    is_changed = known is None or not settled.equals(expected)
    return SourceDifference(is_changed, int(is_young.sum()), settled.digest)
