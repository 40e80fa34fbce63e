"""The parts of a stored catalog: what is written again, what a reader reads, and what happens to damaged parts."""

import os
import time
from contextlib import suppress

import polars as pl
import pytest

from headrace.catalog.compared.changes import compare_catalogs, compare_stored
from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.rows.schemas import FILE_SCHEMA, ROW_SCHEMA
from headrace.catalog.scanning.scan import Catalog, scan
from headrace.catalog.stored.header import HEADER_PATH, REJECTED_PATH, read_current_header, read_header
from headrace.catalog.stored.header_lines import PARTS_FOLDER
from headrace.catalog.stored.parquet_files import parsed_table
from headrace.catalog.stored.partitions import recordings_of
from headrace.catalog.stored.parts import (
    existing_catalog,
    known_catalog,
    last_catalog,
    partition_recordings,
    read_catalog,
    read_rows,
)
from headrace.catalog.stored.storing import store_catalog, store_decode_rejects
from headrace.catalog.stored.update import update_catalog
from headrace.errors import CatalogError, FormatError
from headrace.format.manifests.manifests import Manifest, ManifestRejection, NumberedManifest
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.catalog_fakes import OLD_NS, FakeSource, fake_runtime
from tests.support.projects import Project

pytestmark = pytest.mark.medium

NUM_FILES = 30
LAYOUT = {"shards": {"partitions": {"train": 4, "test": 1}}}
METADATA = pl.DataFrame(
    {
        "path": [f"{number:02d}.wav" for number in range(NUM_FILES)],
        "title": [f"title {number}" for number in range(NUM_FILES)],
        "chords": [[number, 2] for number in range(NUM_FILES)],
    }
)


class Counting(LocalStorage):
    """A folder that counts what is read and written."""

    reads: list[str]
    writes: list[str]

    def read(self, path):
        self.reads.append(path)
        return super().read(path)

    def write(self, path, data):
        self.writes.append(path)
        super().write(path, data)


@pytest.fixture
def config(tmp_path):
    project = Project(tmp_path)
    project.write_yaml(**LAYOUT)
    return project.config()


@pytest.fixture
def source():
    fake = FakeSource()
    for number in range(NUM_FILES):
        fake.put(f"{number:02d}.wav", b"1" * (10 + number))
    fake.put("bad.wav", b"bad")
    return fake


@pytest.fixture
def output(tmp_path):
    found = Counting(tmp_path / "store")
    object.__setattr__(found, "reads", [])
    object.__setattr__(found, "writes", [])
    return found


def update(config, source, output, metadata=METADATA):
    """Scan and store. Returns the header, and the paths that were read and written."""
    output.reads.clear()
    output.writes.clear()
    _, header = update_catalog(config, source, metadata, output, fake_runtime())
    return header, list(output.reads), list(output.writes)


def scanned(source, previous=None, metadata=METADATA):
    return scan(source, previous, CatalogSettings(0), metadata, fake_runtime()).catalog


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_catalog_survives_a_round_trip(config, source, output, is_remote):
    output = open_storage("memory://") if is_remote else output
    catalog = scanned(source)
    store_catalog(output, catalog, config)
    found = existing_catalog(output).whole()
    assert found.recordings.equals(catalog.recordings)
    assert found.recordings.schema == catalog.recordings.schema
    assert found.rejected.equals(catalog.rejected)
    assert found.probe_version == catalog.probe_version
    assert pl.read_parquet(output.read(REJECTED_PATH)).equals(catalog.rejected)


def test_there_is_no_catalog_before_the_first_scan(output, config):
    assert read_catalog(output) is last_catalog(output) is None
    with pytest.raises(CatalogError, match="no catalog yet"):
        existing_catalog(output)
    with pytest.raises(CatalogError, match="no catalog yet"):
        partition_recordings(output, config, "train-0000")


def test_an_empty_catalog_can_be_stored(config, output):
    update(config, FakeSource(), output, None)
    assert existing_catalog(output).recordings().is_empty()
    assert existing_catalog(output).recordings(["key"]).columns == ["key"]
    assert partition_recordings(output, config, "train-0000") == []


def test_facts_of_a_file_are_stored_once_and_rows_are_ranges_of_frames(config, source, output):
    header, *_ = update(config, source, output)
    entry = next(entry for entry in header.partitions.values() if entry.rows)
    files, _ = parsed_table(output.read(entry.files.path), "files", FILE_SCHEMA)
    rows, _ = parsed_table(output.read(entry.rows.path), "rows", ROW_SCHEMA)
    assert files.columns == list(FILE_SCHEMA)
    assert rows.columns == [*ROW_SCHEMA, "title", "chords"]
    assert rows["start_frame"].to_list() == [0] * rows.height
    assert rows["stop_frame"].to_list() == files["num_frames"].to_list()


def test_several_rows_of_one_file_share_its_facts(config, source, output):
    """Rows are samples-to-be: a file may have many, and is described once."""
    whole = scanned(source)
    halves = [
        whole.recordings.with_columns(
            key=pl.format("{}-{}", "key", pl.lit(number)),
            start_frame=pl.lit(start, dtype=pl.Int64),
            stop_frame=pl.lit(start + 5, dtype=pl.Int64),
        )
        for number, start in enumerate((0, 5))
    ]
    spans = pl.concat(halves).sort("path", "start_frame")
    header = store_catalog(output, Catalog(spans, whole.rejected, "1"), config)
    assert header.num_rows == 2 * NUM_FILES
    assert header.num_bytes == whole.recordings["num_bytes"].sum()
    stored = existing_catalog(output)
    assert stored.recordings().equals(spans)
    assert stored.recordings(["sha256"]).height == 2 * NUM_FILES
    assert sum(facts.height for facts in known_catalog(output, header, "1").facts()) == NUM_FILES + 1
    entry = next(entry for entry in header.partitions.values() if entry.rows)
    files, _ = parsed_table(output.read(entry.files.path), "files", FILE_SCHEMA)
    assert 2 * files.height == entry.num_rows


def test_an_unchanged_catalog_is_not_written(config, source, output):
    update(config, source, output)
    _, _, writes = update(config, source, output)
    assert writes == []


def test_a_changed_file_writes_its_own_partition_and_a_changed_title_only_rows(config, source, output):
    before, *_ = update(config, source, output)
    source.put("07.wav", b"another", OLD_NS + 1)
    after, _, writes = update(config, source, output)
    (name,) = [name for name in before.partitions if before.partitions[name] != after.partitions[name]]
    entry = after.partitions[name]
    stamps, durations = after.totals.stamps.path, after.totals.scan.durations.path
    assert writes == [stamps, entry.files.path, entry.rows.path, durations, HEADER_PATH]
    titled = METADATA.with_columns(title=pl.when(pl.col("path") == "07.wav").then(pl.lit("new")).otherwise("title"))
    last, _, writes = update(config, source, output, titled)
    assert writes == [last.partitions[name].rows.path, HEADER_PATH]
    assert last.partitions[name].files == after.partitions[name].files
    assert last.partitions[name].fingerprint != after.partitions[name].fingerprint
    assert last.digest != after.digest


@pytest.mark.parametrize("column", ["mtime_ns", "subtype", "duplicate_of", "stop_frame", "bits_per_sample"])
def test_a_change_of_any_stored_value_is_written(config, source, output, column):
    """Also one that the fingerprint does not cover."""
    catalog = scanned(source)
    before = store_catalog(output, catalog, config)
    other = pl.lit("7") if catalog.recordings.schema[column] == pl.String else pl.lit(7, dtype=pl.Int64)
    changed = pl.when(pl.col("path") == "07.wav").then(other).otherwise(column).alias(column)
    recordings = catalog.recordings.with_columns(changed)
    after = store_catalog(output, Catalog(recordings, catalog.rejected, "1"), config, before)
    assert after.fingerprints == before.fingerprints
    assert len([name for name in after.partitions if after.partitions[name] != before.partitions[name]]) == 1
    assert existing_catalog(output).recordings().equals(recordings)


def test_a_change_of_a_metadata_type_is_written(config, source, output):
    """The values may be equal as JSON."""
    before, *_ = update(config, source, output, METADATA.with_columns(title=pl.lit(1, dtype=pl.Int64)))
    after, *_ = update(config, source, output, METADATA.with_columns(title=pl.lit(1, dtype=pl.Int32)))
    assert after.fingerprints == before.fingerprints
    assert existing_catalog(output).recordings().schema["title"] == pl.Int32


def test_the_run_of_a_partition_reads_the_header_and_its_own_parts(config, source, output):
    header, *_ = update(config, source, output)
    whole = existing_catalog(output).recordings()
    for name, entry in header.partitions.items():
        output.reads.clear()
        found = partition_recordings(output, config, name)
        assert output.reads == [HEADER_PATH, *(part.path for part in (entry.rows, entry.files) if part)]
        assert found == recordings_of(whole.filter(pl.col("path").is_in([value.path for value in found])))


def test_reading_facts_reads_no_rows_and_reading_rows_no_facts(config, source, output):
    header, *_ = update(config, source, output)
    output.reads.clear()
    list(known_catalog(output, header, "1").facts())
    assert [path for path in output.reads if ".files-" in path]
    assert not [path for path in output.reads if ".rows-" in path]
    output.reads.clear()
    assert existing_catalog(output).recordings(["path", "duration_seconds"]).height == NUM_FILES
    assert not [path for path in output.reads if ".files-" in path]
    assert existing_catalog(output).recordings(["title", "sha256"]).columns == ["title", "sha256"]


def test_stored_facts_save_reading_the_files_even_without_a_header(config, source, output):
    update(config, source, output)
    for damage in (lambda: output.delete(HEADER_PATH), lambda: output.write(HEADER_PATH, b"{")):
        damage()
        assert last_catalog(output) is None
        source.opened.clear()
        update(config, source, output)
        assert source.opened == ["bad.wav"]  # the rejects are named by the header alone


def test_files_of_a_missing_part_are_read_again(config, source, output):
    before, *_ = update(config, source, output)
    entry = next(entry for entry in before.partitions.values() if entry.files)
    output.delete(entry.files.path)
    assert read_current_header(output, config) is None
    with pytest.raises(CatalogError, match=r"files-.*is missing; materialize the asset `catalog` again"):
        partition_recordings(output, config, entry.partition)
    source.opened.clear()
    after, *_ = update(config, source, output)
    assert len(source.opened) == entry.num_rows
    assert after == before == read_current_header(output, config)


@pytest.mark.parametrize("kind", ["files", "rows"])
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-10], lambda data: b"", lambda data: b"junk" * 100, lambda data: data[:-9] + b"x" + data[-8:]],
    ids=["cut", "empty", "other", "one byte"],
)
def test_an_error_about_a_damaged_part_names_it_and_deleting_it_is_the_way_out(config, source, output, kind, damage):
    header, *_ = update(config, source, output)
    entry = next(entry for entry in header.partitions.values() if entry.rows)
    part = getattr(entry, kind)
    output.write(part.path, damage(output.read(part.path)))
    with pytest.raises(FormatError, match=rf"{part.name} is damaged.*delete {part.name}"):
        partition_recordings(output, config, entry.partition)
    output.delete(part.path)
    assert update(config, source, output)[0] == header
    assert partition_recordings(output, config, entry.partition)


def test_a_catalog_of_other_settings_is_an_error_that_asks_for_a_scan(config, source, output, tmp_path):
    update(config, source, output)
    project = Project(tmp_path)
    project.write_yaml(shards={"partitions": {"train": 5, "test": 1}})
    with pytest.raises(CatalogError, match="other splits, partitions, group_by"):
        partition_recordings(output, project.config(), "train-0000")
    with pytest.raises(CatalogError, match="no partition 'train-0004'"):
        partition_recordings(output, project.config(), "train-0004")


def test_old_parts_that_no_header_names_are_deleted_by_the_next_scan_but_one(config, source, output):
    """The parts of the previous header stay, because a run may still read them, and so do young parts."""
    first, *_ = update(config, source, output)
    for number in (1, 2):
        _age(output)
        source.put("07.wav", b"other" * number, OLD_NS + number)
        update(config, source, output)
        gone = {part.path for part in first.parts()} - {entry.path for entry in output.list(PARTS_FOLDER)}
        assert len(gone) == (0 if number == 1 else 4)  # the file's facts and rows, the stamps and the durations
    assert len(list(output.list(PARTS_FOLDER))) == len(list(first.parts())) + 4


def _age(output):
    for entry in output.list(PARTS_FOLDER):
        os.utime(output.root / entry.path, (time.time() - 100_000,) * 2)


def test_a_scan_that_dies_anywhere_leaves_the_old_catalog_or_the_new_one(config, source, output):
    class Killed(BaseException):
        pass

    class Dying(LocalStorage):
        left: int

        def write(self, path, data):
            if not self.left:
                raise Killed
            object.__setattr__(self, "left", self.left - 1)
            super().write(path, data)

    update(config, source, output)
    old = existing_catalog(output).whole()
    for number in range(0, NUM_FILES, 4):
        source.put(f"{number:02d}.wav", b"another" * 3, OLD_NS + 1)
    source.put("bad.wav", b"now good", OLD_NS + 1)
    new = scanned(source)
    seen = []
    for left in range(0, 18, 2):
        dying = Dying(output.root)
        object.__setattr__(dying, "left", left)
        with suppress(Killed):
            update_catalog(config, source, METADATA, dying, fake_runtime())
        found = existing_catalog(output).whole()
        is_old, is_new = (
            found.recordings.equals(one.recordings) and found.rejected.equals(one.rejected) for one in (old, new)
        )
        assert is_old or is_new
        seen.append(is_new)
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def test_two_stored_catalogs_are_compared_by_the_partitions_that_differ(config, source, output):
    before, *_ = update(config, source, output)
    old = existing_catalog(output)
    old_whole = old.whole()
    source.put("07.wav", b"another", OLD_NS + 1)
    update(config, source, output)
    new = existing_catalog(output)
    output.reads.clear()
    changes = compare_stored(old, new)
    assert (changes.changed, changes.added, changes.removed, changes.described) == (("07.wav",), (), (), ())
    assert (changes.num_recordings, changes.unit) == (NUM_FILES, "recordings")
    assert len([path for path in output.reads if PARTS_FOLDER in path]) == 6  # rows, files, rejects; before and after
    assert changes == compare_stored(old, new, part_bytes=1) == compare_catalogs(old_whole, new.whole())
    assert compare_stored(old, old).is_empty
    first = compare_stored(None, old)
    assert len(first.added) == NUM_FILES + 1
    assert first == compare_stored(None, old, part_bytes=1) == compare_catalogs(None, old_whole)
    for spoil in (lambda path: output.write(path, b"damaged"), output.delete):
        for part in set(before.parts()) - set(new.header.parts()):
            spoil(part.path)
        assert compare_stored(old, new).changed == ()  # what cannot be read counts as new
    for part in set(new.header.parts()) - set(before.parts()):
        output.delete(part.path)
    with pytest.raises(CatalogError):
        compare_stored(old, new)


def test_catalogs_with_an_empty_partition_and_many_rejects_are_compared_in_parts(config, source, output):
    fewer, rejected = METADATA.head(3), tuple(f"bad{number}.wav" for number in range(40))
    for path in rejected:
        source.put(path, b"bad")
    for path in METADATA["path"][3:]:
        del source.files[path]
    found = set(source.files)
    header, *_ = update(config, source, output, fewer)
    assert None in [entry.rows for entry in header.partitions.values()]
    old = existing_catalog(output)
    for path in rejected[::2]:
        source.put(path, b"bad too", OLD_NS + 1)
    del source.files["00.wav"]
    update(config, source, output, fewer)
    for part_bytes in (1, 1 << 20):
        assert compare_stored(None, old, part_bytes).added == tuple(sorted(found))
        changes = compare_stored(old, existing_catalog(output), part_bytes)
        assert (changes.added, changes.changed, changes.removed) == ((), tuple(sorted(rejected[::2])), ("00.wav",))


def test_rejects_of_an_earlier_catalog_that_cannot_be_read_any_more_count_as_none(config, source, output):
    update(config, source, output)
    old = existing_catalog(output)
    source.put("bad2.wav", b"bad too", OLD_NS)
    update(config, source, output)
    new = existing_catalog(output)
    assert [row.subject for row in compare_stored(old, new).rejects.new] == ["bad2.wav"]
    path = old.header.totals.rejected.path
    output.write(path, b"damaged")
    assert len(compare_stored(old, new).rejects.new) == 2
    output.delete(path)
    assert len(compare_stored(old, new).rejects.new) == 2


def test_decode_rejects_read_only_partitions_with_rejections(config, source, output):
    header, *_ = update(config, source, output)
    entry = next(entry for entry in header.partitions.values() if entry.num_rows > 2)
    path = read_rows(output, entry)["path"][1]
    refused = (ManifestRejection(path, "truncated", "ends early"), ManifestRejection("gone.wav", "truncated", "x"))
    manifests = {
        name: NumberedManifest(1, Manifest(name, "", "", {}, (), refused if name == entry.partition else ()))
        for name in [*header.partitions, "left-0000"]
    }
    output.reads.clear()
    store_decode_rejects(existing_catalog(output), manifests)
    assert [name for name in output.reads if ".rows-" in name] == [entry.rows.path]
    found = existing_catalog(output)
    rejected = found.rejected().filter(pl.col("origin") == "decode")
    assert rejected.select("path", "code").rows() == [(path, "truncated")]
    assert found.header.reasons == {"truncated": 1, "undecodable": 1}
    assert found.header.digest == header.digest
    assert pl.read_parquet(output.read(REJECTED_PATH)).equals(found.rejected())
    kept, *_ = update(config, source, output)
    assert kept.totals.rejects == found.header.totals.rejects
    source.put("new.wav", b"new")
    update(config, source, output)
    other = existing_catalog(output).header
    store_decode_rejects(found, {})
    assert read_header(output) == other  # the catalog has been replaced meanwhile
