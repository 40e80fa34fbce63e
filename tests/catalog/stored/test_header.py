"""The header of a catalog: its content, and when it is ignored."""

import polars as pl
import pytest

from headrace.catalog.scanning.scan import Catalog
from headrace.catalog.stored.header import (
    HEADER_PATH,
    CatalogHeader,
    header_version,
    partition_in,
    read_current_header,
    read_header,
    read_stamps,
)
from headrace.catalog.stored.header_lines import PARTS_FOLDER
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.storing import store_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.errors import CatalogError, ConfigError, FormatError
from headrace.sources.source_changes import GradualListing
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.catalog_fakes import FakeSource, fake_runtime, fingerprints, with_partitions
from tests.support.projects import Project


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
def test_the_header_agrees_with_the_tables(source, output, project, is_remote):
    output = open_storage("memory://") if is_remote else output
    config = project.config()
    _, made = update(source, output, project)
    found, catalog = read_current_header(output, config), existing_catalog(output).whole()
    assert found == made
    assert found.seconds == pytest.approx(catalog.recordings["duration_seconds"].sum()) == pytest.approx(12.6)
    layout = config.partitioning()
    assert found.fingerprints == fingerprints(with_partitions(catalog.recordings, layout, None), layout)
    assert list(found.fingerprints) == layout.partition_keys()
    assert found.reasons == {"undecodable": 1}
    assert (found.num_rows, found.num_rejected, found.num_rejected_files) == (9, 1, 1)
    assert found.num_bytes == catalog.recordings["num_bytes"].sum()
    assert found.totals.num_duplicates == 0
    assert found.totals.durations == (1.1, 1.4, 1.7)
    assert read_stamps(output, found).equals(GradualListing(source).go_on(60.0))


def test_there_is_no_header_before_the_first_scan(source, output, project):
    assert read_current_header(output, project.config()) is read_header(output) is None
    assert header_version(output) == ""
    update(source, output, project)
    version = header_version(output)
    assert version != ""
    source.put("new.wav", b"new")
    update(source, output, project)
    assert header_version(output) != version
    output.delete(HEADER_PATH)
    assert read_current_header(output, project.config()) is None


@pytest.mark.medium
def test_a_header_with_a_missing_or_cut_part_is_ignored(source, output, project):
    header = update(source, output, project)[1]
    for part in header.parts():
        blob = output.read(part.path)
        output.delete(part.path)
        assert read_current_header(output, project.config()) is None
        output.write(part.path, blob[:-1])
        assert read_current_header(output, project.config()) is None
        output.write(part.path, blob)
    assert read_current_header(output, project.config()) == header


@pytest.mark.parametrize(
    "change",
    [
        {"splits": {"train": 0.5, "validation": 0.25, "test": 0.25}},
        {"shards": {"partitions": {"train": 5}}},
        {"group_by": "artist"},
    ],
    ids=str,
)
def test_a_header_of_another_layout_is_ignored(source, output, project, change):
    update(source, output, project)
    project.write_yaml(**change)
    assert read_current_header(output, project.config()) is None


def test_other_settings_do_not_matter(source, output, project):
    update(source, output, project)
    project.write_yaml(audio={"sample_rate": 16_000})
    assert read_current_header(output, project.config()) is not None


@pytest.mark.medium
@pytest.mark.parametrize(
    "damage",
    [
        lambda blob: blob[:-10],
        lambda _: b"",
        lambda blob: blob.replace(b'_catalog": 3', b'_catalog": 2'),
        lambda blob: blob.replace(b"train-0", b"tra1n-0", 1),
        lambda blob: b"[]\n" + blob,
        lambda blob: blob.replace(b'"crc32"', b'"crc31"'),
    ],
    ids=["cut", "empty", "of another version", "a letter", "a list", "without checksum"],
)
def test_an_unreadable_header_is_ignored_and_a_scan_repairs_it(source, output, project, damage):
    update(source, output, project)
    blob = damage(sound := output.read(HEADER_PATH))
    output.write(HEADER_PATH, blob)
    with pytest.raises(FormatError, match=r"here/catalog\.jsonl.*delete catalog\.jsonl"):
        CatalogHeader.from_bytes(blob, "here/catalog.jsonl")
    with pytest.raises(FormatError, match="here"):
        partition_in(blob, "train-0000", "here")
    assert read_current_header(output, project.config()) is None
    update(source, output, project)
    assert output.read(HEADER_PATH) == sound


def test_one_partition_is_read_from_a_header(source, output, project):
    header = update(source, output, project)[1]
    blob = output.read(HEADER_PATH)
    for name, entry in header.partitions.items():
        assert partition_in(blob, name, "here") == (header.totals, entry)
    for name in ("train-0", "", "files"):
        with pytest.raises(CatalogError, match=f"no partition {name!r}"):
            partition_in(blob, name, "here")


def test_an_unchanged_header_is_not_written(source, output, project, tmp_path):
    update(source, output, project)
    before = (tmp_path / "store" / HEADER_PATH).stat()
    update(source, output, project)
    assert (tmp_path / "store" / HEADER_PATH).stat().st_ino == before.st_ino


def test_equal_headers_give_equal_bytes(source, output, project):
    update(source, output, project)
    blob = output.read(HEADER_PATH)
    assert CatalogHeader.from_bytes(blob, HEADER_PATH).to_bytes() == blob


@pytest.mark.medium
def test_the_digest_changes_with_a_recording_and_not_with_its_time(source, output, project):
    digests = [update(source, output, project)[1].digest]
    source.put("3.wav", source.files["3.wav"].content, 5)
    digests.append(update(source, output, project)[1].digest)
    source.put("3.wav", b"another", 6)
    digests.append(update(source, output, project)[1].digest)
    assert digests[0] == digests[1] != digests[2]


def test_with_an_unknown_group_column_nothing_is_stored(source, output, project):
    project.write_yaml(group_by="artist")
    with pytest.raises(ConfigError, match="no column 'artist'"):
        update(source, output, project)
    assert list(output.list()) == []


def test_an_empty_catalog_has_a_header(output, project):
    update(FakeSource(), output, project)
    found = read_current_header(output, project.config())
    assert (len(read_stamps(output, found)), found.seconds, found.reasons) == (0, 0.0, {})
    assert found.totals.durations == (0.0, 0.0, 0.0)


def test_rejects_by_metadata_and_by_decoding_are_not_files_of_the_listing(source, output, project):
    scan, _ = update(source, output, project, pl.DataFrame({"path": ["0.wav", "gone.wav"]}))
    assert scan.rejected["origin"].to_list() == ["file", "metadata"]
    decoded = scan.rejected[:1].with_columns(origin=pl.lit("decode"), path=pl.lit("1.wav"))
    catalog = Catalog(scan.recordings, pl.concat([scan.rejected, decoded]), "1")
    header = store_catalog(output, catalog, project.config())
    assert read_stamps(output, header).equals(GradualListing(source).go_on(60.0))
    assert header.totals.rejects == (
        ("decode", "undecodable", 1),
        ("file", "undecodable", 1),
        ("metadata", "metadata_without_file", 1),
    )


def test_damaged_stamps_are_an_error_by_name(source, output, project):
    header = update(source, output, project)[1]
    output.write(header.totals.stamps.path, b"x")
    with pytest.raises(FormatError, match=f"{PARTS_FOLDER}stamps-"):
        read_stamps(output, header)
