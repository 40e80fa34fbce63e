from hashlib import sha256

import polars as pl
import pytest

from headrace.catalog.acceptance import CatalogSettings
from headrace.catalog.parquet_files import read_catalog, write_catalog
from headrace.catalog.scan import scan
from headrace.catalog.summary import CATALOG_PATH, REJECTED_PATH
from headrace.errors import FormatError
from headrace.stores.storage import LocalStorage
from tests.catalog_fakes import OLD_NS, FakeSource, fake_runtime


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path)


@pytest.fixture
def source():
    fake = FakeSource()
    fake.put("a.wav", b"1")
    fake.put("bad.wav", b"bad")
    return fake


def scanned(source, previous=None, metadata=None):
    return scan(source, previous, CatalogSettings(0), metadata, fake_runtime()).catalog


def test_a_catalog_survives_a_round_trip(storage, source):
    metadata = pl.DataFrame({"path": ["a.wav"], "chords": [[1, 2]], "title": ["x"]})
    catalog = scanned(source, metadata=metadata)
    digests = write_catalog(storage, catalog)
    assert digests == {path: sha256(storage.read(path)).hexdigest() for path in (CATALOG_PATH, REJECTED_PATH)}
    found = read_catalog(storage)
    assert found.recordings.equals(catalog.recordings)
    assert found.recordings.schema == catalog.recordings.schema
    assert found.rejected.equals(catalog.rejected)
    assert found.probe_version == catalog.probe_version


def test_there_is_no_catalog_before_the_first_scan(storage):
    assert read_catalog(storage) is None


def test_an_unchanged_catalog_is_not_written(storage, source, tmp_path):
    write_catalog(storage, scanned(source))
    before = [(tmp_path / path).stat().st_mtime_ns for path in (CATALOG_PATH, REJECTED_PATH)]
    write_catalog(storage, scanned(source, read_catalog(storage)))
    assert [(tmp_path / path).stat().st_mtime_ns for path in (CATALOG_PATH, REJECTED_PATH)] == before


def test_an_empty_catalog_can_be_stored(storage):
    write_catalog(storage, scanned(FakeSource()))
    assert read_catalog(storage).recordings.is_empty()


def test_a_stored_catalog_saves_reading_the_files(storage, source):
    write_catalog(storage, scanned(source))
    source.opened.clear()
    scanned(source, read_catalog(storage))
    assert source.opened == []


def test_a_file_in_both_tables_after_a_crash_is_corrected(storage, source):
    write_catalog(storage, scanned(source))
    old = storage.read(CATALOG_PATH)
    source.put("a.wav", b"bad now", OLD_NS + 1)
    write_catalog(storage, scanned(source, read_catalog(storage)))
    storage.write(CATALOG_PATH, old)  # as if killed between the two
    again = scanned(source, read_catalog(storage))
    assert again.recordings.is_empty()
    assert again.rejected["path"].to_list() == ["a.wav", "bad.wav"]


@pytest.mark.parametrize("damage", [lambda data: data[:-10], lambda data: b"", lambda data: b"junk" * 100])
def test_an_error_about_a_damaged_catalog_file_names_it(storage, source, damage):
    write_catalog(storage, scanned(source))
    storage.write(CATALOG_PATH, damage(storage.read(CATALOG_PATH)))
    with pytest.raises(FormatError, match=r"catalog/catalog\.parquet.*delete"):
        read_catalog(storage)


def test_a_parquet_file_of_another_kind_or_version_is_rejected(storage, source, tmp_path):
    write_catalog(storage, scanned(source))
    pl.DataFrame({"path": ["a"]}).write_parquet(tmp_path / REJECTED_PATH)
    with pytest.raises(FormatError, match="expected format 1, found no version"):
        read_catalog(storage)
    pl.DataFrame({"path": ["a"]}).write_parquet(tmp_path / REJECTED_PATH, metadata={"headrace.format": "1"})
    with pytest.raises(FormatError, match="'reason'"):
        read_catalog(storage)
