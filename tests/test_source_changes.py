"""A listing against a catalog's: what counts as a change, and what waits."""

import pytest

from headrace.source_changes import list_within, source_difference
from headrace.sources import Listing
from headrace.stamps import Stamps, stamps_of

NOW_NS = 1_000_000_000_000
OLD_NS = NOW_NS - 100_000_000_000
SETTLE_SECONDS = 5.0


def stamps(**mtimes: int | None) -> Stamps:
    """Files of one byte by name, with their times of change; refused ones have neither size nor time."""
    sizes = [None if mtime is None else 1 for mtime in mtimes.values()]
    return stamps_of([f"{name}.wav" for name in mtimes], sizes, list(mtimes.values()))


def difference(listing: Stamps, known: Stamps | None):
    return source_difference(listing, known, SETTLE_SECONDS, NOW_NS)


def test_the_same_files_are_no_change_also_refused_and_young_ones():
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
def test_a_new_and_a_changed_file_wait_while_they_are_young(mtime_ns):
    known = stamps(a=OLD_NS, b=OLD_NS)
    found = difference(stamps(a=OLD_NS, b=mtime_ns, c=mtime_ns), known)
    assert (found.is_changed, found.num_waiting) == (False, 2)
    assert found.digest == stamps(a=OLD_NS).digest


@pytest.mark.parametrize("mtime_ns", [NOW_NS - 5_000_000_000, NOW_NS + 5_000_000_000])
def test_a_file_stands_still_after_the_settle_time_and_a_wrong_clock_shuts_none_out(mtime_ns):
    assert difference(stamps(a=mtime_ns), stamps(a=OLD_NS)).is_changed


def test_others_do_not_wait_for_a_young_file():
    found = difference(stamps(a=OLD_NS, b=NOW_NS, c=OLD_NS), stamps(a=OLD_NS, b=OLD_NS))
    assert (found.is_changed, found.num_waiting) == (True, 1)


def test_an_empty_source_waits_for_its_first_scan_too():
    assert difference(stamps(), None).is_changed


class ChunkedSource:
    """A source of two chunks."""

    uri = "fake"

    def list(self):
        for name in ("b.wav", "a.wav"):
            yield Listing([name], [1], [OLD_NS], [None], [None])


def test_a_listing_that_takes_too_long_is_given_up():
    ticks = iter([0.0, 0.5, 1.5])
    assert list_within(ChunkedSource(), 1.0, lambda: next(ticks)) is None


def test_a_listing_is_whole():
    assert list_within(ChunkedSource(), 1.0, lambda: 0.0).equals(stamps(a=OLD_NS, b=OLD_NS))
