"""New and changed files are read once each; what cannot be read is rejected with a reason, what changes waits."""

import contextlib

import polars as pl
import pytest

from headrace.catalog.rows.schemas import FACT_SCHEMA, STAMP_SCHEMA
from headrace.catalog.scanning.probing import ListedFile, Probing, examine, probe_files, still_valid
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.errors import UnsafePathError
from tests.support.catalog_fakes import OLD_NS, FakeSource, fake_probe


def listed(path, content=b"wav", mtime_ns=OLD_NS):
    return ListedFile(path, len(content), mtime_ns, 0)


@pytest.fixture
def source():
    source = FakeSource()
    for name, content in {"a": b"wav", "b": b"bad", "c": b"gone"}.items():
        source.put(name, content)
    return source


def test_a_file_has_its_digest_and_the_facts_of_its_header(source):
    found = dict(zip(list(FACT_SCHEMA)[4:], examine(source, fake_probe, listed("a")).found, strict=True))
    assert len(found["sha256"]) == 64
    assert (found["container"], found["num_frames"], found["code"]) == ("WAV", 3, None)


def test_a_file_that_is_no_audio_keeps_its_digest_and_has_a_reason(source):
    digest, *facts, code, reason = examine(source, fake_probe, listed("b")).found
    assert len(digest) == 64
    assert set(facts) == {None}
    assert (code, reason) == ("undecodable", "not audio")


@pytest.mark.parametrize("file", [listed("missing"), listed("a", mtime_ns=1), listed("a", b"longer")])
def test_a_file_that_changed_or_went_is_left_for_the_next_scan(source, file):
    assert examine(source, fake_probe, file).found is None


@pytest.mark.parametrize(
    ("error", "code"),
    [(PermissionError(13, "Permission denied"), "unreadable"), (UnsafePathError("x"), "outside_root")],
)
def test_a_file_that_cannot_be_opened_has_no_digest(source, error, code):
    @contextlib.contextmanager
    def refused(path, stamp):
        raise error
        yield

    source.open_digested = refused
    digest, *_, found, reason = examine(source, fake_probe, listed("a")).found
    assert (digest, found) == (None, code)
    assert reason


def test_all_files_are_read_and_those_that_changed_are_returned(source):
    stored, told = [], []
    table = pl.DataFrame([listed("a"), listed("b"), listed("c", b"new")], schema=STAMP_SCHEMA, orient="row")
    how = Probing(fake_probe, "1", ReadingThreads(2), lambda done, total: told.append((done, total)))
    changed = probe_files(source, [table[:2], table[2:]], 3, how, stored.append)
    assert changed["path"].to_list() == ["c"]
    assert sorted(pl.concat(stored)["path"]) == ["a", "b"]
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_after_a_change_of_the_probe_only_accepted_files_with_exact_lengths_are_known():
    facts = pl.DataFrame(
        {"path": ["pcm", "lossy", "bad"], "code": [None, None, "empty"], "bits_per_sample": [16, None, 16]},
        schema_overrides={"code": pl.String, "bits_per_sample": pl.Int64},
    )
    assert still_valid(facts, "1", "1")["path"].to_list() == ["pcm", "lossy", "bad"]
    assert still_valid(facts, "1", "2")["path"].to_list() == ["pcm"]
