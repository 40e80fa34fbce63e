"""Detects whether a source has changed since its last scan, by listing it, without opening a file.

`GradualListing` lists a source in as many steps of bounded length as it takes. `source_difference` compares the listing
with the catalog's stamps. What to do about a change is decided elsewhere: `headrace.catalog.scanning.scan` scans,
`headrace.assemble.reconcile` finds stale partitions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.sources.listing import ABSENT, SourceStamps, concatenated, stamps_of
from headrace.sources.sources import Source

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SourceDifference:
    """A listing compared with a catalog.

    Attributes:
        is_changed: whether a settled file is new, changed or gone.
        num_waiting: files that changed too recently to be scanned.
        digest: fingerprint of all other files; listings with equal digests need the same scan.
    """

    is_changed: bool
    num_waiting: int
    digest: str


class GradualListing:
    """A listing of a source that is made bit by bit, at 40 bytes for each file.

    Attributes:
        num_files: how many files are listed so far.
    """

    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin the listing of `source`."""
        self.num_files = 0
        self._chunks, self._clock = source.list(), clock
        self._found: list[SourceStamps] = []

    def go_on(self, seconds: float) -> SourceStamps | None:
        """Go on where the last call stopped. Returns the whole listing, or None if it takes longer than `seconds`.

        The clock is read after each chunk of the listing, so the limit is exceeded by one chunk at most, and each call
        lists one chunk at least. After an error, the listing cannot go on.
        """
        deadline = self._clock() + seconds
        for chunk in self._chunks:
            self._found.append(stamps_of(chunk.path, chunk.num_bytes, chunk.mtime_ns, chunk.ctime_ns))
            self.num_files += len(chunk)
            if self._clock() > deadline:
                return None
        return concatenated(self._found)


def source_difference(
    listing: SourceStamps, known: SourceStamps | None, settle_seconds: float, now_ns: int
) -> SourceDifference:
    """Compare a listing with the catalog's stamps. Files that changed within `settle_seconds` are left out of both.

    A modification time in the future counts as recent only within the same span, as in
    `headrace.catalog.scanning.scan.plan_scan`. Pure.

    Args:
        listing: the files of the source.
        known: the catalog's stamps; None before the first scan, which is due even if the source is empty.
        settle_seconds: see `SourceConfig`.
        now_ns: current time, nanoseconds since 1970.
    """
    there = stamps_of((), (), ()) if known is None else known
    settle_ns, times = round(settle_seconds * _NS), listing.mtime_ns  # no difference of times, which may overflow
    is_recent = (now_ns - settle_ns < times) & (times < now_ns + settle_ns) & (listing.num_bytes != ABSENT)
    is_young = is_recent & ~listing.are_in(there)
    settled = listing.where(~is_young)
    expected = there.where(~np.isin(there.paths, listing.paths[is_young]))
    is_changed = known is None or not settled.equals(expected)
    return SourceDifference(is_changed, int(is_young.sum()), settled.digest)
