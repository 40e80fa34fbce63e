"""A scan leaves out files that are still being written; a single build waits for them."""

import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.scanning.scan import scan_settled
from tests.support.catalog_fakes import NOW_NS, OLD_NS, check, fake_runtime, look, three_files

SECOND = 1_000_000_000


def paths(result):
    return result.recordings["path"].to_list()


@pytest.fixture
def source():
    return three_files()


def test_a_recently_changed_file_is_left_for_the_next_scan(source):
    source.put("new.wav", b"new", NOW_NS - 2 * SECOND)
    first = look(source, asked=CatalogSettings(5))
    assert "new.wav" not in source.opened
    assert first.unsettled["path"].to_list() == ["new.wav"]
    later = look(source, first.catalog, asked=CatalogSettings(5), clock=lambda: NOW_NS + 4 * SECOND)
    assert "new.wav" in paths(later)


def test_a_file_that_is_known_counts_as_settled_at_any_age(source):
    source.put("new.wav", b"new", NOW_NS - 2 * SECOND)
    first = look(source)
    second = look(source, first.catalog, asked=CatalogSettings(5))
    assert (second.num_unsettled, second.num_reused) == (0, 4)


def test_a_recording_that_is_being_replaced_leaves_the_catalog_until_it_settles(source):
    first = look(source)
    source.put("a.wav", b"half of the new", NOW_NS - SECOND)
    second = look(source, first.catalog, asked=CatalogSettings(5))
    assert (paths(second), second.num_unsettled) == (["b/c.wav", "b/d.wav"], 1)


def test_a_file_that_grows_while_it_is_read_is_left_for_the_next_scan(source):
    source.on_open["a.wav"] = lambda: source.put("a.wav", b"more and more", OLD_NS + 1)
    first = look(source)
    assert first.unsettled["path"].to_list() == ["a.wav"]
    source.on_open.clear()
    assert "a.wav" in paths(look(source, first.catalog))


def test_a_file_that_is_deleted_while_it_is_read_is_left_for_the_next_scan(source):
    source.on_open["a.wav"] = lambda: source.files.pop("a.wav")
    assert look(source).num_unsettled == 1


def test_a_file_with_a_date_far_in_the_future_is_accepted(source):
    source.put("future.wav", b"x", NOW_NS + 10**9 * SECOND)
    source.put("skewed.wav", b"x", NOW_NS + 2 * SECOND)
    result = look(source, asked=CatalogSettings(5))
    assert "future.wav" in paths(result)
    assert result.unsettled["path"].to_list() == ["skewed.wav"]


def test_a_single_build_waits_until_recently_changed_files_settle(source):
    source.put("new.wav", b"new", NOW_NS - 2 * SECOND)
    now, waits = [NOW_NS], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += round(seconds * SECOND)

    reported = []
    runtime = fake_runtime(clock=lambda: now[0], sleep=sleep, settling=lambda *waiting: reported.append(waiting))
    result = scan_settled(source, None, CatalogSettings(5), None, runtime)
    check(result)
    assert reported == [(1, waits[0])]
    assert waits == [pytest.approx(3, abs=0.1)]
    assert (result.num_unsettled, result.num_opened, result.num_reused) == (0, 4, 0)
    assert sorted(source.opened) == ["a.wav", "b/c.wav", "b/d.wav", "new.wav"]


def test_a_single_build_leaves_out_files_that_still_change(source):
    now, waits = [NOW_NS], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += round(seconds * SECOND)
        source.put("growing.wav", b"longer", now[0])

    source.put("growing.wav", b"long", NOW_NS)
    result = scan_settled(source, None, CatalogSettings(5), None, fake_runtime(clock=lambda: now[0], sleep=sleep))
    assert sum(waits) <= 6
    assert result.unsettled["path"].to_list() == ["growing.wav"]


def test_a_single_build_does_not_wait_for_a_settled_source(source):
    def sleep(seconds):
        raise AssertionError

    assert scan_settled(source, None, CatalogSettings(5), None, fake_runtime(sleep=sleep)).num_opened == 3
