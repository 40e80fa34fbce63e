"""What keeps a scan from being stored."""

import polars as pl
import pytest

from headrace.catalog_files import read_catalog
from headrace.catalog_update import update_catalog
from headrace.errors import CatalogError
from headrace.storage import LocalStorage
from tests.catalog_fakes import FakeSource, fake_runtime
from tests.projects import Project


@pytest.fixture
def update(tmp_path):
    """Scans three files, or those given, with a table of these paths; gives what was stored."""
    project, output = Project(tmp_path), LocalStorage(tmp_path / "store")
    project.write_yaml()

    def update_one(paths, names=("a/1.wav", "a/2.wav", "bad.wav")):
        source = FakeSource()
        for name in names:
            source.put(name, name.encode())
        update_catalog(project.config(), source, pl.DataFrame({"path": paths}), output, fake_runtime())
        return read_catalog(output)

    update_one.output = output
    return update_one


@pytest.mark.parametrize("paths", [["1.wav", "2.wav"], ["/data/a/1.wav"], [None, "x", "2.wav"]])
def test_a_table_of_which_all_rows_miss_and_some_by_their_folder_is_an_error_and_nothing_is_stored(update, paths):
    with pytest.raises(CatalogError, match=r"`path` is relative to source\.uri.* for example.*one of that name is a/"):
        update(paths)
    assert read_catalog(update.output) is None


@pytest.mark.parametrize("paths", [["ghost.wav"], [None, ".1.wav"], ["x.wav", "x.wav"]])
def test_rows_of_files_that_are_nowhere_are_gaps_and_no_fault_of_the_table(update, paths):
    stored = update(paths)
    assert stored.recordings.height == 2
    assert stored.rejected.filter(pl.col("origin") == "metadata").height == len(paths)


@pytest.mark.parametrize("paths", [[], ["a/1.wav", "x.wav"], ["bad.wav"], ["a/1.wav", "a/1.wav"]])
def test_a_table_that_names_some_file_is_taken_also_where_that_file_is_refused(update, paths):
    assert update(pl.Series(paths, dtype=pl.String)).recordings.height == 2


def test_a_source_without_files_is_not_the_fault_of_the_table(update):
    assert update(["a.wav"], names=()).recordings.height == 0
