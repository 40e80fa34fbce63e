"""Errors that prevent a scan from being stored."""

import polars as pl
import pytest

from headrace.catalog.stored.parts import read_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.errors import CatalogError, ConfigError
from headrace.stores.storage import LocalStorage
from tests.support.catalog_fakes import FakeSource, fake_runtime
from tests.support.projects import Project


@pytest.fixture
def update(tmp_path):
    """Scan the given files (three by default) with a table of these paths. Returns what was stored."""
    project, output = Project(tmp_path), LocalStorage(tmp_path / "store")
    project.write_yaml()

    def update_one(paths, names=("a/1.wav", "a/2.wav", "bad.wav")):
        source = FakeSource()
        for name in names:
            source.put(name, name.encode())
        update_catalog(project.config(), source, pl.DataFrame({"path": paths}), output, fake_runtime())
        return read_catalog(output).whole()

    update_one.output = output
    return update_one


@pytest.mark.parametrize("paths", [["1.wav", "2.wav"], ["/data/a/1.wav"], [None, "x", "2.wav"], ["1.wav"] * 3])
def test_a_table_without_any_matching_row_is_an_error_if_some_rows_name_a_wrong_folder(update, paths):
    with pytest.raises(CatalogError, match=r"relative to source\.uri.* for example.*a file of that name is a/"):
        update(paths)
    assert read_catalog(update.output) is None


@pytest.mark.parametrize("paths", [["ghost.wav"], [None, ".1.wav"], ["x.wav", "x.wav"], [None, None]])
def test_rows_of_missing_files_are_not_an_error_of_the_table(update, paths):
    stored = update(paths)
    assert stored.recordings.height == 2
    rejected = stored.rejected.filter(pl.col("origin") == "metadata")
    assert rejected["path"].to_list() == (["", ""] if paths == [None, None] else sorted({path or "" for path in paths}))


@pytest.mark.parametrize("paths", [[], ["a/1.wav", "x.wav"], ["bad.wav"], ["a/1.wav", "a/1.wav"]])
def test_a_table_that_names_some_file_is_accepted_even_if_that_file_is_rejected(update, paths):
    assert update(pl.Series(paths, dtype=pl.String)).recordings.height == 2


def test_a_source_without_files_is_not_blamed_on_the_table(update):
    assert update(["a.wav"], names=()).recordings.height == 0


class Unlisted(FakeSource):
    """A source that must not be listed."""

    def list(self):
        raise AssertionError("listed")


TABLE = pl.DataFrame({"path": ["a.wav"], "artist": ["x"], "chords": [["a"]]})
NAMES = {
    "a column that is not there": (
        {"group_by": "artists"},
        TABLE,
        r"group_by: the metadata has no column 'artists'; did you mean 'artist'\? its columns are 'artist', 'chords'$",
    ),
    "no table": (
        {"group_by": "artist"},
        None,
        r"group_by: .*no column 'artist'; there is no metadata table: name one in source\.metadata",
    ),
    "a column of lists": ({"group_by": "chords"}, TABLE, r"'chords' holds lists or objects; name"),
    "the path": ({"group_by": "path"}, TABLE, "no column 'path'"),
    "no such schema": ({"validation": "nowhere:Schema"}, TABLE, r"source\.schema nowhere:Schema: No module named"),
}


@pytest.mark.parametrize(("keys", "table", "words"), NAMES.values(), ids=NAMES)
def test_a_yaml_name_without_a_match_is_an_error_before_anything_is_listed(tmp_path, keys, table, words):
    project, output = Project(tmp_path), LocalStorage(tmp_path / "store")
    schema = {"schema": keys.pop("validation")} if "validation" in keys else {}
    project.write_yaml(source={"uri": "x", **schema}, **keys)
    with pytest.raises(ConfigError, match=words):
        update_catalog(project.config(), Unlisted(), table, output, fake_runtime())
    assert read_catalog(output) is None
