"""Comparison of a listing with the catalog: what counts as a change, and what waits."""

from dataclasses import dataclass

import pytest

from headrace.sources.bucket_source import BucketSource
from headrace.sources.listing import Listing, SourceStamps, stamps_of
from headrace.sources.source_changes import GradualListing, source_difference
from headrace.stores.storage import StoredObject

NOW_NS = 1_000_000_000_000
OLD_NS = NOW_NS - 100_000_000_000
SETTLE_SECONDS = 5.0


def stamps(**mtimes: int | None) -> SourceStamps:
    """Stamps of one-byte files with these modification times. Rejected files have neither size nor time."""
    sizes = [None if mtime is None else 1 for mtime in mtimes.values()]
    return stamps_of([f"{name}.wav" for name in mtimes], sizes, list(mtimes.values()))


def difference(listing: SourceStamps, known: SourceStamps | None):
    return source_difference(listing, known, SETTLE_SECONDS, NOW_NS)


def test_the_same_files_are_not_a_change_including_rejected_and_recent_ones():
    known = stamps(a=OLD_NS, refused=None, young=NOW_NS)
    found = difference(stamps(young=NOW_NS, refused=None, a=OLD_NS), known)
    assert (found.is_changed, found.num_waiting) == (False, 0)
    assert found.digest == known.digest


@pytest.mark.parametrize(
    "listing",
    [stamps(a=OLD_NS), stamps(a=OLD_NS, b=OLD_NS, c=OLD_NS), stamps(a=OLD_NS, b=OLD_NS - 1), stamps(a=OLD_NS, b=None)],
    ids=["deleted", "new", "changed", "refused now"],
)
def test_a_settled_difference_is_a_change(listing):
    found = difference(listing, stamps(a=OLD_NS, b=OLD_NS))
    assert (found.is_changed, found.num_waiting) == (True, 0)


@pytest.mark.parametrize("mtime_ns", [NOW_NS - 4_900_000_000, NOW_NS, NOW_NS + 4_900_000_000])
def test_new_and_changed_files_wait_until_they_settle(mtime_ns):
    known = stamps(a=OLD_NS, b=OLD_NS)
    found = difference(stamps(a=OLD_NS, b=mtime_ns, c=mtime_ns), known)
    assert (found.is_changed, found.num_waiting) == (False, 2)
    assert found.digest == stamps(a=OLD_NS).digest


@pytest.mark.parametrize("mtime_ns", [NOW_NS - 5_000_000_000, NOW_NS + 5_000_000_000])
def test_a_file_settles_after_settle_seconds_even_if_its_clock_is_wrong(mtime_ns):
    assert difference(stamps(a=mtime_ns), stamps(a=OLD_NS)).is_changed


def test_other_files_do_not_wait_for_a_recent_file():
    found = difference(stamps(a=OLD_NS, b=NOW_NS, c=OLD_NS), stamps(a=OLD_NS, b=OLD_NS))
    assert (found.is_changed, found.num_waiting) == (True, 1)


def test_an_empty_source_is_also_a_change_before_its_first_scan():
    assert difference(stamps(), None).is_changed


class ChunkedSource:
    """A source of two chunks."""

    uri = "fake"

    def list(self):
        for name in ("b.wav", "a.wav"):
            yield Listing([name], [1], [OLD_NS], [0], [None], [None])


def test_a_listing_that_takes_too_long_goes_on_where_it_stopped():
    ticks = iter([0.0, 1.5, 5.0, 6.5, 10.0])
    listing, nums = GradualListing(ChunkedSource(), lambda: next(ticks)), []
    while (found := listing.go_on(1.0)) is None:
        nums.append(listing.num_files)
    assert found.equals(stamps(a=OLD_NS, b=OLD_NS))
    assert nums == [1, 2]


def test_a_listing_contains_all_chunks():
    assert GradualListing(ChunkedSource(), lambda: 0.0).go_on(1.0).equals(stamps(a=OLD_NS, b=OLD_NS))


@dataclass
class PagedBucket:
    """A bucket with very many objects, whose pages take time."""

    clock: list[float]
    num_objects: int = 1_000_000
    page_seconds: float = 0.03
    num_pages: int = 0
    uri: str = "s3://bucket"

    def pages(self):
        for start in range(0, self.num_objects, 1000):
            self.clock[0] += self.page_seconds
            self.num_pages += 1
            yield [StoredObject(f"recordings/{number:07d}.wav", 1, 0.0) for number in range(start, start + 1000)]


@pytest.mark.medium
@pytest.mark.parametrize("exclude", [(), ("recordings",)], ids=["recordings", "nothing but excluded objects"])
def test_the_time_limit_holds_for_a_bucket_of_a_million_objects(exclude):
    clock = [0.0]
    bucket = PagedBucket(clock)
    listing = GradualListing(BucketSource(bucket, exclude), lambda: clock[0])
    for step in range(1, 4):
        before = clock[0]
        assert listing.go_on(1.4) is None
        assert clock[0] <= before + 1.4 + 0.03 + 1e-9
        assert bucket.num_pages == 47 * step


def test_a_bucket_that_is_listed_in_time_gives_all_objects():
    clock = [0.0]
    listing = GradualListing(BucketSource(PagedBucket(clock, num_objects=3000)), lambda: clock[0])
    assert len(listing.go_on(1.4)) == listing.num_files == 3000
