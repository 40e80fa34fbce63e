"""A listing over several ticks: it goes on where it stopped, rests as long, and is given up after an hour."""

import pytest

from headrace.sources.listing import Listing
from headrace_dagster.sensors import source_listing
from headrace_dagster.sensors.source_listing import SourceListing


class SlowSource:
    """A source of which each tick lists one file."""

    def __init__(self, num_files):
        self.num_files, self.begun = num_files, 0

    def list(self):
        self.begun += 1
        for number in range(self.num_files):
            yield Listing([f"{number}.wav"], [1], [0], [None], [None])


@pytest.fixture(autouse=True)
def one_chunk_a_tick(monkeypatch):
    monkeypatch.setattr(source_listing, "_LOOK_SECONDS", -1.0)


def ticks(listing, source, seconds, version="v1"):
    """The results of ticks at these times."""
    return [listing.go_on(source, version, 1000.0 + second) for second in seconds]


def test_a_listing_goes_on_where_it_stopped_and_has_all_files():
    listing, source = SourceListing(), SlowSource(200)
    *before, found = ticks(listing, source, range(0, 5 * 201, 5))
    assert set(before) == {None}
    assert len(found) == 200
    assert source.begun == 1
    assert not listing.is_late


def test_a_tick_says_how_far_the_listing_is():
    listing = SourceListing()
    ticks(listing, SlowSource(9), [0, 5, 10])
    assert listing.says == "listing the source: 3 files so far"


def test_after_a_listing_is_a_pause_as_long_as_it_took():
    listing, source = SourceListing(), SlowSource(2)
    assert ticks(listing, source, [0, 5, 10])[-1] is not None
    ticks(listing, source, [15])
    assert listing.says == "the next listing begins in 5 s"
    assert source.begun == 1
    ticks(listing, source, [20])
    assert source.begun == 2


def test_a_listing_in_one_tick_is_made_in_each(monkeypatch):
    monkeypatch.setattr(source_listing, "_LOOK_SECONDS", 600.0)
    source = SlowSource(3)
    assert None not in [found and len(found) for found in ticks(SourceListing(), source, [0, 1, 2])]
    assert source.begun == 3


def test_a_listing_that_is_older_than_the_catalog_is_dropped():
    listing, source = SourceListing(), SlowSource(3)
    ticks(listing, source, [0, 5])
    assert ticks(listing, source, [10], version="v2") == [None]
    assert listing.num_files == 1
    assert len(ticks(listing, source, [15, 20, 25], version="v2")[-1]) == 3


def test_a_listing_is_forgotten_while_the_sensor_is_switched_off():
    listing, source = SourceListing(), SlowSource(9)
    ticks(listing, source, [0, 299, 600])
    assert (source.begun, listing.num_files) == (2, 1)


def test_a_listing_of_more_than_an_hour_is_given_up_and_said_until_one_is_in_time():
    listing, source = SourceListing(), SlowSource(10**6)
    assert set(ticks(listing, source, range(0, 3601, 5))) == {None}
    assert listing.is_late
    assert listing.says == (
        "only 721 files were listed within 1 h: changes of the source are left to the schedule `refresh`"
    )
    ticks(listing, source, [3605, 7195])
    assert source.begun == 1  # it rests for as long
    assert listing.says.startswith("only 721 files")
    source.num_files = 1
    assert ticks(listing, source, [7200, 7205])[-1] is not None
    assert not listing.is_late


def test_a_listing_that_failed_begins_again():
    class Broken(SlowSource):
        def list(self):
            yield from super().list()
            raise OSError("unmounted")

    listing, source = SourceListing(), Broken(1)
    ticks(listing, source, [0])
    with pytest.raises(OSError, match="unmounted"):
        ticks(listing, source, [5])
    ticks(listing, source, [10])
    assert source.begun == 2
