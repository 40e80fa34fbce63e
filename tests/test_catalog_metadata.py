"""The user's table in a scan: which row joins which file, what keys it gives, and what is said of rows that miss."""

import polars as pl
import pytest

from headrace.catalog import CatalogSettings
from headrace.errors import ConfigError
from headrace.metadata_columns import metadata_dicts
from headrace.rejects import Origin
from tests.catalog_fakes import NOW_NS, codes, look, three_files

KEYED = CatalogSettings(settle_seconds=0, key_column="key")


@pytest.fixture
def source():
    return three_files()


def test_metadata_joins_by_path_and_reaches_the_digest(source):
    first = look(source, metadata=pl.DataFrame({"path": ["b/c.wav"], "title": ["x"], "chords": [[1, 2]]}))
    assert first.recordings["title"].to_list() == [None, "x", None]
    second = look(source, first.catalog, pl.DataFrame({"path": ["b/c.wav"], "title": ["y"], "chords": [[1, 2]]}))
    differ = first.recordings["recording_digest"] != second.recordings["recording_digest"]
    assert differ.to_list() == [False, True, False]
    assert second.num_opened == 0


def test_the_order_of_metadata_rows_and_columns_changes_nothing(source):
    table = pl.DataFrame({"path": ["a.wav", "b/c.wav"], "title": ["x", "y"], "n": [1, 2]})
    moved = table.reverse().select("n", "path", "title")
    assert look(source, metadata=table).catalog.digest == look(source, metadata=moved).catalog.digest


def test_the_first_row_of_a_path_counts(source):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", "./a.wav"], "title": ["x", "y"]}))
    assert result.recordings["title"][0] == "x"
    assert codes(result, Origin.METADATA) == {"a.wav": "duplicate_metadata"}
    assert "row 2" in result.rejected["reason"].item()


COMPOSED, DECOMPOSED = "\u00e9t\u00e9.wav", "e\u0301te\u0301.wav"  # the same word, as Linux and as macOS spell it


@pytest.mark.parametrize(("file", "row"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED), (DECOMPOSED, DECOMPOSED)])
def test_a_row_finds_its_file_however_its_accents_are_spelled(source, file, row):
    source.put(file, b"summer")
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", row, None], "title": ["x", "y", "z"]}))
    assert dict(result.recordings.select("path", "title").iter_rows()) == {
        "a.wav": "x", "b/c.wav": None, "b/d.wav": None, file: "y",
    }  # fmt: skip
    assert codes(result, Origin.METADATA) == {"": "bad_name"}


def test_files_that_differ_in_nothing_but_that_need_rows_spelled_as_they_are(source):
    source.put(COMPOSED, b"one")
    source.put(DECOMPOSED, b"two")
    result = look(source, metadata=pl.DataFrame({"path": [DECOMPOSED], "title": ["two"]}))
    assert dict(result.recordings.select("path", "title").iter_rows())[DECOMPOSED] == "two"
    assert result.recordings["title"].null_count() == 4


def test_a_row_for_a_refused_or_unsettled_file_is_not_without_file(source):
    source.put("bad.wav", b"bad")
    source.put("new.wav", b"new", NOW_NS)
    table = pl.DataFrame({"path": ["bad.wav", "new.wav"]})
    assert codes(look(source, metadata=table, asked=CatalogSettings(5)), Origin.METADATA) == {}


def reasons(result):
    return dict(result.rejected.select("path", "reason").iter_rows())


@pytest.mark.parametrize("path", ["c.wav", "/elsewhere/c.wav", "old/c.wav"])
def test_a_row_that_misses_names_the_file_of_that_name(source, path):
    source.put("z/c.wav", b"another")
    result = look(source, metadata=pl.DataFrame({"path": [path, "a.wav"]}))
    assert reasons(result)[path].endswith("; paths are relative to source.uri, and one of that name is b/c.wav")


def test_a_row_for_nothing_at_all_says_only_that(source):
    result = look(source, metadata=pl.DataFrame({"path": ["x.wav", "a.wav"]}))
    assert reasons(result) == {"x.wav": "row 1 of the metadata table names no file of the source"}


@pytest.mark.parametrize("path", [".a.wav", "b/.c.wav", ".b/c2.wav"])
def test_a_row_for_a_hidden_file_says_that_those_are_not_looked_at(source, path):
    result = look(source, metadata=pl.DataFrame({"path": [path]}))
    assert codes(result, Origin.METADATA) == {path: "metadata_without_file"}
    assert "names a hidden file or folder (begins with a dot), which are not looked at" in reasons(result)[path]


def test_a_key_that_is_taken_comes_with_the_way_out(source):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", "b/c.wav"], "key": ["k", "k"]}), asked=KEYED)
    assert codes(result) == {"b/c.wav": "duplicate_key"}
    assert "a.wav has already" in reasons(result)["b/c.wav"]
    assert "source.key_column" in reasons(result)["b/c.wav"]


def test_a_refused_file_does_not_take_a_key_from_a_good_one(source):
    source.put("0.wav", b"1")
    table = pl.DataFrame({"path": ["0.wav", "a.wav"], "key": ["k", "k"]})
    result = look(source, metadata=table, asked=CatalogSettings(0, min_seconds=1, key_column="key"))
    assert codes(result) == {"0.wav": "too_short"}
    assert result.recordings["key"][0] == "k"


@pytest.mark.parametrize("key", ["a.b", "C# minor", "x" * 81, "take-s000001", "a/b", "é", "a\n"])
def test_a_key_that_no_tar_member_should_have_is_refused(source, key):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav"], "key": [key]}), asked=KEYED)
    assert codes(result) == {"a.wav": "bad_key"}


def test_a_column_for_keys_that_is_not_there_is_named_with_those_that_are(source):
    table = pl.DataFrame({"path": ["a.wav"], "title": ["x"]})
    with pytest.raises(ConfigError, match=r"source.key_column: .* no column 'key'; its columns are path, title"):
        look(source, metadata=table, asked=KEYED)


def test_an_empty_key_is_derived(source):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", "b/c.wav"], "key": [None, ""]}), asked=KEYED)
    assert result.recordings["key"].equals(look(source).recordings["key"])


def test_a_musical_key_stays_metadata_when_no_column_gives_keys(source):
    table = pl.DataFrame({"path": ["a.wav"], "key": ["C# minor"], "metadata_key": ["x"]})
    result = look(source, metadata=table, asked=CatalogSettings(0, key_column=None))
    assert codes(result) == {}
    assert metadata_dicts(result.recordings)[0] == {"key": "C# minor", "metadata_key": "x"}


def test_another_column_can_give_the_keys(source):
    table = pl.DataFrame({"path": ["a.wav"], "take": ["T1"], "key": ["C# minor"]})
    result = look(source, metadata=table, asked=CatalogSettings(0, key_column="take"))
    assert result.recordings["key"][0] == "T1"
    assert metadata_dicts(result.recordings)[0] == {"key": "C# minor"}


def test_a_table_without_paths_is_refused(source):
    with pytest.raises(ConfigError, match=r"no column 'path'.*file"):
        look(source, metadata=pl.DataFrame({"file": ["a.wav"]}))
