"""A scan that was interrupted: what it read is kept, and the next scan reads only the rest."""

import logging

import polars as pl
import pytest

from headrace.catalog.rows.schemas import FACT_SCHEMA
from headrace.catalog.scanning import probing
from headrace.catalog.scanning.checkpoint import CHECKPOINT_FOLDER, ScanCheckpoint
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.update import update_catalog
from headrace.errors import CatalogError, StorageError
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.catalog_fakes import AT_ONCE, OLD_NS, FakeSource, check, fake_runtime, look
from tests.support.projects import Project

NUM_FILES = 20


@pytest.fixture
def source():
    source = FakeSource()
    for number in range(NUM_FILES):
        source.put(f"{number:02d}.wav", b"." * (number + 1))
    return source


@pytest.fixture
def output():
    return open_storage("memory://")


def interrupted(source, checkpoint, *, after, error=KeyboardInterrupt, **runtime):
    """Scan, and stop after this many files."""

    def progress(done, total):
        if done == after:
            raise error

    with pytest.raises(error):
        scan(source, None, AT_ONCE, None, fake_runtime(progress=progress, **runtime), checkpoint=checkpoint)


def resumed(source, checkpoint, previous=None, **runtime):
    source.opened.clear()
    result = scan(source, previous, AT_ONCE, None, fake_runtime(**runtime), checkpoint=checkpoint)
    check(result)
    return result


def parts(output):
    return [entry.path for entry in output.list(CHECKPOINT_FOLDER)]


def test_after_ctrl_c_the_next_scan_reads_only_the_rest_and_gives_the_same_catalog(source, output):
    undisturbed = look(source)
    interrupted(source, ScanCheckpoint(output), after=12)
    told = []
    result = resumed(source, ScanCheckpoint(output), resuming=told.append)
    assert (len(source.opened), result.num_opened, result.num_resumed, result.num_reused) == (8, 8, 12, 0)
    assert told == [12]
    assert result.recordings.equals(undisturbed.recordings)
    assert result.rejected.equals(undisturbed.rejected)


def test_a_part_is_written_each_minute_and_holds_only_what_is_new(source, output):
    now = [0.0]

    def progress(done, total):
        now[0] += 13.0

    checkpoint = ScanCheckpoint(output, clock=lambda: now[0])
    scan(source, None, AT_ONCE, None, fake_runtime(progress=progress), checkpoint=checkpoint)
    heights = [pl.read_parquet(output.read(path)).height for path in parts(output)]
    assert heights == [6, 5, 5]  # 13 s for each file
    assert ScanCheckpoint(output).facts("1")["path"].n_unique() == sum(heights)


def test_an_undisturbed_short_scan_writes_nothing(source, output):
    scan(source, None, AT_ONCE, None, fake_runtime(), checkpoint=ScanCheckpoint(output))
    assert parts(output) == []


def test_files_that_changed_since_they_were_read_are_read_again(source, output):
    interrupted(source, ScanCheckpoint(output), after=NUM_FILES)
    source.put("03.wav", b"other", OLD_NS + 1)
    source.put("04.wav", b"longer than before")
    del source.files["05.wav"]
    result = resumed(source, ScanCheckpoint(output))
    assert sorted(source.opened) == ["03.wav", "04.wav"]
    assert result.num_resumed == NUM_FILES - 3
    assert result.recordings.equals(look(source).recordings)


def test_unreadable_files_are_tried_again(source, output):
    def forbidden():
        raise PermissionError(13, "Permission denied")

    source.on_open["07.wav"] = forbidden
    interrupted(source, ScanCheckpoint(output), after=NUM_FILES)
    source.on_open.clear()
    resumed(source, ScanCheckpoint(output))
    assert source.opened == ["07.wav"]


def test_rejections_by_another_reading_library_are_not_taken_over(source, output):
    source.put("bad.wav", b"bad")
    interrupted(source, ScanCheckpoint(output), after=NUM_FILES + 1)
    resumed(source, ScanCheckpoint(output), probe_version=lambda: "2")
    assert source.opened == ["bad.wav"]


def test_files_of_the_previous_catalog_do_not_count_as_taken_over(source, output):
    previous = look(source).catalog
    interrupted(source, ScanCheckpoint(output), after=NUM_FILES)
    source.put("new.wav", b"new")
    result = resumed(source, ScanCheckpoint(output), previous)
    assert (result.num_reused, result.num_resumed, result.num_opened) == (NUM_FILES, 0, 1)


def test_scans_at_the_same_time_keep_parts_of_their_own(source, output):
    interrupted(source, ScanCheckpoint(output), after=NUM_FILES)
    facts = ScanCheckpoint(output).facts("1")
    ScanCheckpoint(output).add(facts, "1")
    assert len(parts(output)) == 2
    assert resumed(source, ScanCheckpoint(output)).num_resumed == NUM_FILES


def test_a_damaged_part_is_ignored_with_a_message(source, output, caplog):
    interrupted(source, ScanCheckpoint(output), after=5)
    (part,) = parts(output)
    output.write(f"{CHECKPOINT_FOLDER}torn.parquet", output.read(part)[:100])
    output.write(f"{CHECKPOINT_FOLDER}other.parquet", b"PAR1" * 10)
    result = resumed(source, ScanCheckpoint(output))
    assert result.num_resumed == 5
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "torn.parquet is ignored, and its files are read again" in caplog.text


class Full:
    """An output that cannot be written for some time."""

    def __init__(self, output, num_failures):
        self.output, self.num_failures = output, num_failures

    def write(self, path, data):
        self.num_failures -= 1
        if self.num_failures >= 0:
            raise StorageError("no space left")
        self.output.write(path, data)

    def __getattr__(self, name):
        return getattr(self.output, name)


def test_an_output_that_cannot_be_written_delays_a_part_and_does_not_end_the_scan(source, output, caplog):
    checkpoint = ScanCheckpoint(Full(output, 3), seconds=0)
    scan(source, None, AT_ONCE, None, fake_runtime(), checkpoint=checkpoint)
    assert "no space left" in caplog.text
    assert ScanCheckpoint(output).facts("1").height == NUM_FILES


@pytest.mark.parametrize("num_failures", [0, 2])
def test_many_files_are_kept_before_it_is_time(source, output, monkeypatch, num_failures):
    """Facts that wait to be kept are in memory, so their number is limited. A failed part is tried with the next."""
    monkeypatch.setattr(probing, "_SLICE_ROWS", 2)
    monkeypatch.setattr(probing, "_MOST_NOT_KEPT", 6)
    checkpoint = ScanCheckpoint(Full(output, num_failures), clock=lambda: 0.0)
    kept = []

    def progress(done, total):
        kept.append(ScanCheckpoint(output).facts("1").height)

    scan(source, None, AT_ONCE, None, fake_runtime(progress=progress), checkpoint=checkpoint)
    after = [0] * 5 + [6] * 6 + [12] * 6 + [18] * 3
    assert kept == [count if done > 6 * num_failures + 5 else 0 for done, count in enumerate(after, 1)]


def test_an_interrupt_is_raised_even_if_the_output_cannot_be_written(source, output):
    interrupted(source, ScanCheckpoint(Full(output, 99)), after=3)


def test_a_checkpoint_is_hidden_and_gone_once_the_catalog_is_stored(tmp_path, source):
    project = Project(tmp_path)
    project.write_yaml()
    output = LocalStorage(tmp_path / "output")
    interrupted(source, ScanCheckpoint(output), after=12)
    assert parts(output)
    assert list(output.list()) == []
    source.opened.clear()
    result, _ = update_catalog(project.config(), source, None, output, fake_runtime())
    assert (len(source.opened), result.num_resumed) == (8, 12)
    assert parts(output) == []


def test_a_scan_whose_catalog_is_refused_keeps_its_checkpoint(tmp_path, source, monkeypatch):
    project = Project(tmp_path)
    project.write_yaml()
    output = LocalStorage(tmp_path / "output")
    interrupted(source, ScanCheckpoint(output), after=12)

    def refuse(*tables):
        raise CatalogError("no")

    with monkeypatch.context() as patch:
        patch.setattr("headrace.catalog.judging.validation.PartCheck.finish", refuse)
        with pytest.raises(CatalogError):
            update_catalog(project.config(), source, None, output, fake_runtime())
    assert ScanCheckpoint(output).facts("1").height == 12


def test_facts_of_no_part_are_an_empty_table(output):
    assert dict(ScanCheckpoint(output).facts("1").schema) == FACT_SCHEMA


# Workers
