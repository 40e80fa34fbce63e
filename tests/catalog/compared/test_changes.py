"""Comparisons of two catalogs: files by their bytes, recordings by what is written to shards."""

import polars as pl

from headrace.catalog.compared.changes import compare_catalogs
from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.scanning.scan import scan
from tests.support.catalog_fakes import FakeSource, fake_runtime

AT_ONCE = CatalogSettings(settle_seconds=0)


def catalog(files, metadata=None, settings=AT_ONCE, previous=None):
    source = FakeSource()
    for name, content in files.items():
        source.put(name, content)
    return scan(source, previous, settings, metadata, fake_runtime()).catalog


BEFORE = {"a.wav": b"wav a", "b.wav": b"wav b", "c.wav": b"wav c", "bad.wav": b"bad"}


def test_at_the_first_scan_every_file_is_added_and_every_reject_is_new():
    changes = compare_catalogs(None, catalog(BEFORE))
    assert changes.added == ("a.wav", "b.wav", "bad.wav", "c.wav")
    assert (changes.changed, changes.removed, changes.described) == ((), (), ())
    assert [row.subject for row in changes.rejects.new] == ["bad.wav"]
    assert changes.num_recordings == 3


def test_added_changed_removed_and_newly_rejected_files_are_distinguished():
    after = {"a.wav": b"wav a", "b.wav": b"wav other", "d.wav": b"bad too", "bad.wav": b"bad"}
    changes = compare_catalogs(catalog(BEFORE), catalog(after))
    assert (changes.added, changes.changed, changes.removed) == (("d.wav",), ("b.wav",), ("c.wav",))
    assert changes.described == ()  # b.wav has other content
    assert [row.subject for row in changes.rejects.new] == ["d.wav"]
    assert changes.rejects.faults == {"undecodable": 2}
    assert not changes.is_empty


def test_a_valid_file_that_is_now_rejected_counts_as_changed_and_not_as_removed():
    changes = compare_catalogs(catalog(BEFORE), catalog({**BEFORE, "a.wav": b"bad now"}))
    assert (changes.added, changes.changed, changes.removed) == ((), ("a.wav",), ())
    assert [row.subject for row in changes.rejects.new] == ["a.wav"]
    back = compare_catalogs(catalog({**BEFORE, "a.wav": b"bad now"}), catalog(BEFORE))
    assert (back.changed, back.rejects.new, back.rejects.num_gone) == (("a.wav",), (), 1)


def test_equal_catalogs_have_no_differences():
    before = catalog(BEFORE)
    assert compare_catalogs(before, before).is_empty
    assert compare_catalogs(before, catalog(BEFORE, previous=before)).is_empty


def test_changed_metadata_does_not_count_as_a_changed_file():
    titles = [pl.DataFrame({"path": ["a.wav"], "title": [title]}) for title in ("Dawn", "Dusk")]
    changes = compare_catalogs(*(catalog(BEFORE, table) for table in titles))
    assert (changes.described, changes.changed) == (("a.wav",), ())
    assert not changes.is_empty


def test_files_that_the_yaml_excludes_are_not_new_rejects():
    files = {"a.wav": b"wav a", "b.wav": b"wav a"}
    dropping = CatalogSettings(settle_seconds=0, duplicates="drop")
    changes = compare_catalogs(catalog(files), catalog(files, settings=dropping))
    assert changes.rejects.new == ()
    assert [row.subject for row in changes.rejects.left_out] == ["b.wav"]
    assert changes.rejects.asked_for == {"duplicate": 1}
