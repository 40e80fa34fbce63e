"""The user's metadata table in a scan: which row joins which file, its keys, and errors about rows without a file."""

import polars as pl
import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.rows.metadata_columns import metadata_dicts
from headrace.catalog.rows.metadata_rows import TableReader, TableSettings
from headrace.config.source import ColumnsConfig, SampleKind
from headrace.errors import ConfigError
from headrace.format.rejects import RejectSubject
from tests.support.catalog_fakes import NOW_NS, codes, look, three_files

KEYED = CatalogSettings(settle_seconds=0, columns=ColumnsConfig(key="key"))


@pytest.fixture
def source():
    return three_files()


def test_metadata_joins_by_path_and_is_part_of_the_digest(source):
    first = look(source, metadata=pl.DataFrame({"path": ["b/c.wav"], "title": ["x"], "chords": [[1, 2]]}))
    assert first.recordings["title"].to_list() == [None, "x", None]
    second = look(source, first.catalog, pl.DataFrame({"path": ["b/c.wav"], "title": ["y"], "chords": [[1, 2]]}))
    differ = first.recordings["recording_digest"] != second.recordings["recording_digest"]
    assert differ.to_list() == [False, True, False]
    assert second.num_opened == 0


def test_the_order_of_metadata_rows_and_columns_changes_nothing(source):
    table = pl.DataFrame({"path": ["a.wav", "b/c.wav"], "title": ["x", "y"], "n": [1, 2]})
    moved = table.reverse().select("n", "path", "title")
    first, second = (look(source, metadata=one).recordings["recording_digest"] for one in (table, moved))
    assert first.equals(second)


def test_different_rows_for_one_path_are_a_table_error_before_a_file_is_opened(source):
    table = pl.DataFrame({"path": ["a.wav", "b/c.wav", "./a.wav"], "title": ["x", "z", "y"], "n": [1, 1, 1]})
    message = (
        r"rows that differ for the same path \(paths: 1\): 'a\.wav' \(rows 1, 3 differ in title\)\. With "
        r"source\.samples: files, each recording has one row; .* needs source\.samples: rows"
    )
    with pytest.raises(ConfigError, match=message):
        look(source, metadata=table)
    assert source.opened == []


def test_of_many_paths_with_different_rows_the_first_five_are_named(source):
    paths = [f"gone{number}.wav" for number in range(8)]
    with pytest.raises(ConfigError, match=r"\(paths: 8\): 'gone0\.wav' .*'gone4\.wav' \([^)]*\) and 3 more\."):
        look(source, metadata=pl.DataFrame({"path": paths * 2, "n": range(16)}))


def test_paths_with_different_rows_are_named_in_the_order_of_the_table(source):
    paths = [f"{letter}.wav" for letter in "hgfedcba"]
    table = pl.DataFrame({"path": paths * 2, "n": range(25, 9, -1)})
    with pytest.raises(
        ConfigError, match=r"'h\.wav' .*'g\.wav' .*'f\.wav' .*'e\.wav' .*'d\.wav' \([^)]*\) and 3 more\."
    ):
        look(source, metadata=table)


class InBatches:
    """A table of several data frames."""

    def __init__(self, *frames):
        self.schema, self._frames = frames[0].schema, frames

    def batches(self):
        return iter(self._frames)


def test_of_many_rows_with_an_end_and_a_duration_the_first_five_are_named():
    frame = pl.DataFrame({"path": ["a.wav"] * 2, "end": [1.0] * 2, "duration": [1.0] * 2})
    reader = TableReader(InBatches(*4 * [frame]), TableSettings(SampleKind.ROWS))
    with pytest.raises(ConfigError, match=r"rows 1, 2, 3, 4, 5 and 3 more: both given is an error"):
        list(reader.batches())
    assert reader.num_rows == 8


def test_rows_that_differ_only_in_their_key_count_as_different(source):
    with pytest.raises(ConfigError, match=r"rows 1, 2 differ in key\)"):
        look(source, metadata=pl.DataFrame({"path": ["a.wav", "a.wav"], "key": ["k", None]}), asked=KEYED)


@pytest.mark.parametrize("value", ["x", None, [1, None], {"a": [float("nan")]}, float("nan")])
def test_equal_rows_are_merged_and_counted(source, value):
    once = pl.DataFrame({"path": ["a.wav", "b/c.wav", None], "v": [value, value, value]}, strict=False)
    twice = pl.concat([once, once.with_columns(path="./" + pl.col("path")), once])
    merged, single = look(source, metadata=twice), look(source, metadata=once)
    assert merged.recordings.equals(single.recordings)
    assert (merged.num_rows, merged.num_merged_rows, single.num_merged_rows) == (9, 4, 0)
    assert codes(merged, RejectSubject.METADATA) == {"": "bad_name"}
    assert merged.rejected.height == 3  # rows without a path belong to no recording


COMPOSED, DECOMPOSED = (
    "\u00e9t\u00e9.wav",
    "e\u0301te\u0301.wav",
)  # the same word in the Unicode forms of Linux and macOS


@pytest.mark.parametrize(("file", "row"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED), (DECOMPOSED, DECOMPOSED)])
def test_a_row_finds_its_file_in_any_unicode_form(source, file, row):
    source.put(file, b"summer")
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", row, None], "title": ["x", "y", "z"]}))
    assert dict(result.recordings.select("path", "title").iter_rows()) == {
        "a.wav": "x", "b/c.wav": None, "b/d.wav": None, file: "y",
    }  # fmt: skip
    assert codes(result, RejectSubject.METADATA) == {"": "bad_name"}


def test_rows_in_different_unicode_forms_of_one_path_belong_to_one_path(source):
    source.put(COMPOSED, b"summer")
    with pytest.raises(ConfigError, match="differ in title"):
        look(source, metadata=pl.DataFrame({"path": [COMPOSED, DECOMPOSED], "title": ["x", "y"]}))


def test_files_that_differ_only_in_unicode_form_need_rows_in_their_exact_form(source):
    source.put(COMPOSED, b"one")
    source.put(DECOMPOSED, b"two")
    result = look(source, metadata=pl.DataFrame({"path": [DECOMPOSED], "title": ["two"]}))
    assert dict(result.recordings.select("path", "title").iter_rows())[DECOMPOSED] == "two"
    assert result.recordings["title"].null_count() == 4


def test_a_row_for_a_rejected_or_unsettled_file_is_not_reported_as_without_file(source):
    source.put("bad.wav", b"bad")
    source.put("new.wav", b"new", NOW_NS)
    table = pl.DataFrame({"path": ["bad.wav", "new.wav"]})
    assert codes(look(source, metadata=table, asked=CatalogSettings(5)), RejectSubject.METADATA) == {}


def reasons(result):
    return dict(result.rejected.select("path", "reason").iter_rows())


@pytest.mark.parametrize("path", ["c.wav", "/elsewhere/c.wav", "old/c.wav"])
def test_the_error_about_a_row_in_a_wrong_folder_names_the_file_of_that_name(source, path):
    source.put("z/c.wav", b"another")
    result = look(source, metadata=pl.DataFrame({"path": [path, "a.wav"]}))
    assert reasons(result)[path].endswith("; paths are relative to source.uri, and a file of that name is b/c.wav")


def test_rows_with_paths_outside_of_the_source_are_rejected_as_such(source):
    names = ["/elsewhere/x.wav", "../x.wav", "..", "..x/y.wav", "b/../x.wav", ""]
    rejected = look(source, metadata=pl.DataFrame({"path": names})).rejected
    found = rejected.filter(pl.col("origin") == RejectSubject.METADATA).select("path", "code").rows()
    assert dict(found) == {
        "": "bad_name",
        "..": "outside_root",
        "../x.wav": "outside_root",
        "..x/y.wav": "metadata_without_file",
        "/elsewhere/x.wav": "outside_root",
        "x.wav": "metadata_without_file",
    }


def test_the_error_about_a_row_without_any_file_says_only_that(source):
    result = look(source, metadata=pl.DataFrame({"path": ["x.wav", "a.wav"]}))
    assert reasons(result) == {"x.wav": "row 1 of the metadata table names no file of the source"}


@pytest.mark.parametrize("path", [".a.wav", "b/.c.wav", ".b/c2.wav"])
def test_the_error_about_a_row_for_a_hidden_file_says_that_hidden_files_are_ignored(source, path):
    result = look(source, metadata=pl.DataFrame({"path": [path]}))
    assert codes(result, RejectSubject.METADATA) == {path: "metadata_without_file"}
    assert "names a hidden file or folder (its name begins with a dot), which is not listed" in reasons(result)[path]


def test_the_error_about_a_duplicate_key_says_how_to_resolve_it(source):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", "b/c.wav"], "key": ["k", "k"]}), asked=KEYED)
    assert codes(result) == {"b/c.wav": "duplicate_key"}
    assert "a.wav already has" in reasons(result)["b/c.wav"]
    assert "source.columns.key" in reasons(result)["b/c.wav"]


def test_a_rejected_file_does_not_reserve_its_key(source):
    source.put("0.wav", b"1")
    table = pl.DataFrame({"path": ["0.wav", "a.wav"], "key": ["k", "k"]})
    result = look(source, metadata=table, asked=CatalogSettings(0, min_seconds=1, columns=ColumnsConfig(key="key")))
    assert codes(result) == {"0.wav": "too_short"}
    assert result.recordings["key"][0] == "k"


@pytest.mark.parametrize("key", ["a.b", "C# minor", "x" * 81, "take-s000001", "a/b", "é", "a\n"])
def test_a_key_that_is_unsafe_as_a_tar_member_name_is_rejected(source, key):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav"], "key": [key]}), asked=KEYED)
    assert codes(result) == {"a.wav": "bad_key"}


def test_the_error_about_a_missing_key_column_names_the_existing_columns(source):
    table = pl.DataFrame({"path": ["a.wav"], "title": ["x"]})
    with pytest.raises(ConfigError, match=r"source.columns.key: .* no column 'key'; its columns are path, title"):
        look(source, metadata=table, asked=KEYED)


def test_an_empty_key_is_derived_from_the_path(source):
    result = look(source, metadata=pl.DataFrame({"path": ["a.wav", "b/c.wav"], "key": [None, ""]}), asked=KEYED)
    assert result.recordings["key"].equals(look(source).recordings["key"])


def test_a_column_named_key_is_metadata_unless_it_is_the_key_column(source):
    table = pl.DataFrame({"path": ["a.wav"], "key": ["C# minor"], "metadata_key": ["x"]})
    result = look(source, metadata=table, asked=CatalogSettings(0))
    assert codes(result) == {}
    assert metadata_dicts(result.recordings)[0] == {"key": "C# minor", "metadata_key": "x"}


def test_another_column_can_contain_the_keys(source):
    table = pl.DataFrame({"path": ["a.wav"], "take": ["T1"], "key": ["C# minor"]})
    result = look(source, metadata=table, asked=CatalogSettings(0, columns=ColumnsConfig(key="take")))
    assert result.recordings["key"][0] == "T1"
    assert metadata_dicts(result.recordings)[0] == {"key": "C# minor", "take": "T1"}


def test_a_table_without_paths_is_rejected(source):
    with pytest.raises(ConfigError, match=r"no column 'path'.*file"):
        look(source, metadata=pl.DataFrame({"file": ["a.wav"]}))
