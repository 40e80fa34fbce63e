"""The summary beside a catalog: its content, and when it is ignored."""

import polars as pl
import pytest

from headrace.catalog.partitions import partition_fingerprints
from headrace.catalog.scan import Catalog
from headrace.catalog.source_changes import list_within
from headrace.catalog.summary import CATALOG_PATH, REJECTED_PATH, SUMMARY_PATH, CatalogSummary, read_summary
from headrace.catalog.update import existing_catalog, store_catalog, update_catalog
from headrace.errors import ConfigError, FormatError
from headrace.stores.storage import LocalStorage, open_storage
from tests.catalog_fakes import FakeSource, fake_runtime
from tests.projects import Project


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.write_yaml()
    return project


@pytest.fixture
def source():
    fake = FakeSource()
    for number in range(9):
        fake.put(f"{number}.wav", b"1" * (10 + number))
    fake.put("bad.wav", b"bad")
    return fake


@pytest.fixture
def output(tmp_path):
    return LocalStorage(tmp_path / "store")


def update(source, output, project, metadata=None):
    return update_catalog(project.config(), source, metadata, output, fake_runtime())


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_summary_agrees_with_the_catalog(source, output, project, is_remote):
    output = open_storage("memory://") if is_remote else output
    _, made = update(source, output, project)
    catalog, found = existing_catalog(output), read_summary(output, project.config())
    assert found.digest == made.digest == catalog.digest
    assert found.seconds == catalog.recordings["duration_seconds"].sum() == 12.6
    assert found.fingerprints == partition_fingerprints(catalog.recordings, project.config())
    assert list(found.fingerprints) == project.config().partitioning().partition_keys()
    assert found.reasons == {"undecodable": 1}
    assert found.stamps.equals(list_within(source, 60.0))


def test_there_is_no_summary_before_the_first_scan_or_beside_a_catalog_of_an_older_version(source, output, project):
    assert read_summary(output, project.config()) is None
    update(source, output, project)
    output.delete(SUMMARY_PATH)
    assert read_summary(output, project.config()) is None
    update(source, output, project)
    assert read_summary(output, project.config()) is not None


@pytest.mark.parametrize("path", [CATALOG_PATH, REJECTED_PATH])
def test_a_summary_of_other_tables_is_ignored(source, output, project, path):
    """This happens after a kill between writing tables and summary, or if a table is restored from a backup."""
    update(source, output, project)
    old = output.read(path)
    source.put("0.wav", b"another", 5)
    source.put("bad.wav", b"bad, too", 5)
    update(source, output, project)
    output.write(path, old)
    assert read_summary(output, project.config()) is None
    output.delete(path)
    assert read_summary(output, project.config()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"splits": {"train": 0.5, "validation": 0.25, "test": 0.25}},
        {"shards": {"partitions": {"train": 5}}},
        {"group_by": "artist"},
    ],
    ids=str,
)
def test_a_summary_of_another_layout_is_ignored(source, output, project, change):
    update(source, output, project)
    project.write_yaml(**change)
    assert read_summary(output, project.config()) is None


def test_other_settings_do_not_matter(source, output, project):
    update(source, output, project)
    project.write_yaml(audio={"sample_rate": 16_000})
    assert read_summary(output, project.config()) is not None


@pytest.mark.parametrize(
    "damage",
    [lambda blob: blob[:-10], lambda _: b"", lambda blob: blob.replace(b'_summary":"1"', b'_summary":"2"')],
    ids=["cut", "empty", "of another version"],
)
def test_an_unreadable_summary_is_ignored_and_a_scan_repairs_it(source, output, project, damage):
    update(source, output, project)
    blob = damage(output.read(SUMMARY_PATH))
    output.write(SUMMARY_PATH, blob)
    with pytest.raises(FormatError, match="here"):
        CatalogSummary.from_bytes(blob, "here")
    assert read_summary(output, project.config()) is None
    update(source, output, project)
    assert read_summary(output, project.config()) is not None


def test_an_unchanged_summary_is_not_written(source, output, project, tmp_path):
    update(source, output, project)
    before = (tmp_path / "store" / SUMMARY_PATH).stat()
    update(source, output, project)
    assert (tmp_path / "store" / SUMMARY_PATH).stat().st_ino == before.st_ino


def test_equal_summaries_give_equal_bytes(source, output, project):
    update(source, output, project)
    blob = output.read(SUMMARY_PATH)
    assert CatalogSummary.from_bytes(blob, SUMMARY_PATH).to_bytes() == blob


def test_with_an_unknown_group_column_nothing_is_stored(source, output, project):
    project.write_yaml(group_by="artist")
    with pytest.raises(ConfigError, match="no column 'artist'"):
        update(source, output, project)
    assert list(output.list()) == []


def test_an_empty_catalog_has_a_summary(output, project):
    update(FakeSource(), output, project)
    found = read_summary(output, project.config())
    assert (len(found.stamps), found.seconds, found.reasons) == (0, 0.0, {})


def test_rejects_by_metadata_and_by_decoding_are_not_files_of_the_listing(source, output, project):
    scan, _ = update(source, output, project, pl.DataFrame({"path": ["0.wav", "gone.wav"]}))
    assert scan.rejected["origin"].to_list() == ["file", "metadata"]
    decoded = scan.rejected[:1].with_columns(origin=pl.lit("decode"), path=pl.lit("1.wav"))
    catalog = Catalog(scan.recordings, pl.concat([scan.rejected, decoded]), "1")
    assert store_catalog(output, catalog, project.config()).stamps.equals(list_within(source, 60.0))
