import os
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.judging.acceptance import CatalogSettings, decode_rejects, with_decode_rejects
from headrace.catalog.judging.validation import check_catalog
from headrace.catalog.scanning.scan import scan
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.config.source import ColumnsConfig, SourceConfig
from headrace.format.keys import MAX_KEY_LENGTH
from headrace.format.rejects import RejectSubject
from headrace.sources.sources import open_source
from tests.support.catalog_fakes import (
    AT_ONCE,
    OLD_NS,
    FakeSource,
    check,
    codes,
    fake_probe,
    look,
    three_files,
)

SECOND = 1_000_000_000


def paths(result):
    return result.recordings["path"].to_list()


@pytest.fixture
def source():
    return three_files()


# Real files


def write_wav(path, seconds=0.1, rate=8000, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.sin(np.arange(round(seconds * rate)) * (0.01 + 0.001 * len(path.name)))
    soundfile.write(path, samples, rate, **options)


def test_every_kind_of_rejected_file_gets_an_understandable_reason(tmp_path):
    root = tmp_path / "root"
    write_wav(root / "good.wav")
    write_wav(root / "copy.wav")
    (root / "copy.wav").write_bytes((root / "good.wav").read_bytes())
    write_wav(root / "flac named.wav", format="FLAC")
    write_wav(root / "short.wav", seconds=0.01)
    write_wav(root / "key1.wav")
    write_wav(root / "key2.wav")
    write_wav(root / "dotted.wav")
    (root / "empty.wav").write_bytes(b"")
    (root / "cover.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(100))
    (root / "notes.txt").write_text("not audio")
    write_wav(root / "no frames.wav", seconds=0)
    write_wav(root / "truncated.wav")
    os.truncate(root / "truncated.wav", 400)
    (root / "broken.flac").write_bytes(b"fLaC" + bytes(100))
    write_wav(tmp_path / "secret.wav")
    (root / "out.wav").symlink_to("../secret.wav")
    (root / os.fsdecode(b"\xff.wav")).write_bytes(b"x")
    keys = {"key1.wav": "same", "key2.wav": "same", "dotted.wav": "a.b", "good.wav": "mine", "./good.wav": "mine"}
    no_keys = ["gone.wav", "../secret.wav", "/etc/passwd", None, "empty.wav"]
    metadata = pl.DataFrame({"path": [*keys, *no_keys], "key": [*keys.values(), *[None] * len(no_keys)]})
    result = scan(
        open_source(root), None, CatalogSettings(0, min_seconds=0.05, columns=ColumnsConfig(key="key")), metadata
    )
    check(result)
    assert paths(result) == ["copy.wav", "flac named.wav", "good.wav", "key1.wav"]
    found = codes(result)
    assert found == {
        "broken.flac": "undecodable",
        "cover.jpg": "unsupported",
        "notes.txt": "unsupported",
        "\\xff.wav": "bad_name",
        "dotted.wav": "bad_key",
        "empty.wav": "empty",
        "key2.wav": "duplicate_key",
        "no frames.wav": "no_frames",
        "out.wav": "outside_root",
        "short.wav": "too_short",
        "truncated.wav": "truncated",
    }
    assert codes(result, RejectSubject.METADATA) == {
        "": "bad_name",
        "gone.wav": "metadata_without_file",
        "../secret.wav": "outside_root",
        "/etc/passwd": "outside_root",
    }
    assert result.num_merged_rows == 1
    reasons = dict(result.rejected.select("path", "reason").iter_rows())
    assert "key1.wav" in reasons["key2.wav"]
    assert reasons[""] == "row 9 of the metadata table has no path"
    assert "min_seconds: 0.05" in reasons["short.wav"]
    assert all(len(reason) > 10 for reason in reasons.values())
    rows = {row["path"]: row for row in result.recordings.to_dicts()}
    assert rows["flac named.wav"]["container"] == "FLAC"
    assert rows["good.wav"]["key"] == "mine"
    assert (rows["good.wav"]["duplicate_of"], rows["copy.wav"]["duplicate_of"]) == ("copy.wav", None)


@pytest.mark.parametrize("suffix", ["wav", "flac", "aiff", "ogg", "mp3", "opus"])
def test_every_common_format_is_a_recording(tmp_path, suffix):
    options = {"format": "OGG", "subtype": "OPUS"} if suffix == "opus" else {}
    write_wav(tmp_path / f"a.{suffix}", seconds=0.5, rate=48000, **options)
    result = scan(open_source(tmp_path), None, AT_ONCE)
    check(result)
    assert result.recordings.select("sample_rate_hz", "num_channels").rows() == [(48000, 1)]
    assert result.recordings["duration_seconds"].item() == pytest.approx(0.5, abs=0.1)


# Which files are opened again


def test_an_unchanged_source_is_not_opened_again(source):
    first = look(source)
    source.opened.clear()
    second = look(source, first.catalog)
    assert (source.opened, second.num_opened, second.num_reused) == ([], 0, 3)
    assert second.recordings.equals(first.recordings)
    assert second.rejected.equals(first.rejected)


def test_a_touched_file_is_read_again_without_downstream_changes(source):
    first = look(source)
    source.files["a.wav"].mtime_ns += SECOND
    second = look(source, first.catalog)
    assert source.opened[3:] == ["a.wav"]
    assert second.recordings["recording_digest"].equals(first.recordings["recording_digest"])
    assert second.recordings["mtime_ns"][0] == OLD_NS + SECOND


def test_a_changed_file_changes_only_its_own_digest(source):
    first = look(source)
    source.put("b/c.wav", b"other bytes", OLD_NS + SECOND)
    second = look(source, first.catalog)
    assert source.opened[3:] == ["b/c.wav"]
    differ = first.recordings["recording_digest"] != second.recordings["recording_digest"]
    assert differ.to_list() == [False, True, False]
    assert first.recordings["key"].equals(second.recordings["key"])


def test_adding_and_deleting_files_leaves_the_other_rows_unchanged(source):
    first = look(source)
    del source.files["a.wav"]
    source.put("0.wav", b"new")
    second = look(source, first.catalog)
    assert paths(second) == ["0.wav", "b/c.wav", "b/d.wav"]
    assert source.opened[3:] == ["0.wav"]
    assert second.recordings[1:].equals(first.recordings[1:])


def test_a_renamed_file_has_another_key_and_digest(source):
    first = look(source)
    source.files["z.wav"] = source.files.pop("a.wav")
    second = look(source, first.catalog)
    row, old = second.recordings.row(2, named=True), first.recordings.row(0, named=True)
    assert row["path"] == "z.wav"
    assert row["sha256"] == old["sha256"]
    assert row["key"] != old["key"]
    assert row["recording_digest"] != old["recording_digest"]


@pytest.mark.medium
def test_rejected_files_are_not_opened_again_until_they_or_the_reading_library_change(source):
    source.put("bad.wav", b"bad stuff")
    first = look(source)
    source.opened.clear()
    second = look(source, first.catalog)
    assert source.opened == []
    assert codes(second) == {"bad.wav": "undecodable"}
    look(source, first.catalog, probe_version=lambda: "2")
    assert source.opened == ["bad.wav"]
    source.put("bad.wav", b"mended", OLD_NS + 1)
    assert paths(look(source, second.catalog)) == ["a.wav", "b/c.wav", "b/d.wav", "bad.wav"]


@pytest.mark.medium
def test_lossy_files_are_counted_again_with_another_reading_library(source):
    def lossy(file, *, num_bytes):
        found = fake_probe(file, num_bytes=num_bytes)
        return replace(found, subtype="MPEG_LAYER_III", bits_per_sample=None) if file.getvalue() == b"mp3" else found

    source.put("a.mp3", b"mp3")
    first = look(source, probe=lossy)
    source.opened.clear()
    look(source, first.catalog, probe=lossy)
    assert source.opened == []
    look(source, first.catalog, probe=lossy, probe_version=lambda: "2")
    assert source.opened == ["a.mp3"]


@pytest.mark.medium
def test_a_file_without_read_permission_is_tried_at_every_scan(source):
    def forbidden():
        raise PermissionError(13, "Permission denied")

    source.on_open["a.wav"] = forbidden
    first = look(source)
    assert codes(first) == {"a.wav": "unreadable"}
    assert "Permission denied" in first.rejected["reason"].item()
    source.on_open.clear()
    assert paths(look(source, first.catalog)) == ["a.wav", "b/c.wav", "b/d.wav"]


@pytest.mark.medium
def test_another_min_seconds_opens_no_file(source):
    source.put("short.wav", b"12345")
    first = look(source, asked=CatalogSettings(0, min_seconds=1.0))
    assert codes(first) == {"short.wav": "too_short"}
    source.opened.clear()
    second = look(source, first.catalog)
    assert source.opened == []
    assert "short.wav" in paths(second)
    third = look(source, second.catalog, asked=CatalogSettings(0, min_seconds=1.0))
    assert source.opened == []
    assert third.rejected.equals(first.rejected)


@pytest.mark.parametrize(("num_frames", "code"), [(9, "too_short"), (10, None), (11, None)])
def test_a_recording_of_exactly_the_shortest_length_is_kept(source, num_frames, code):
    source.put("edge.wav", b"." * num_frames)
    result = look(source, asked=CatalogSettings(0, min_seconds=1.0))
    assert codes(result).get("edge.wav") == code
    assert ("edge.wav" in paths(result)) == (code is None)


# Settings, keys and lengths


@pytest.mark.parametrize("name", ["settle_seconds", "min_seconds", "span_tolerance_seconds"])
def test_a_scan_has_the_defaults_of_the_yaml(name):
    assert getattr(CatalogSettings(), name) == SourceConfig.model_fields[name].default


def test_a_key_of_the_greatest_length_is_accepted_and_a_longer_one_is_not(source):
    metadata = pl.DataFrame({"path": ["a.wav", "b/c.wav"], "key": ["k" * MAX_KEY_LENGTH, "k" * (MAX_KEY_LENGTH + 1)]})
    result = look(source, metadata=metadata, asked=CatalogSettings(0, columns=ColumnsConfig(key="key")))
    assert codes(result) == {"b/c.wav": "bad_key"}


def test_the_reason_for_a_whole_transcript_as_key_has_its_beginning(source):
    metadata = pl.DataFrame({"path": ["a.wav"], "key": ["ja und\nwords " * 10_000]})
    result = look(source, metadata=metadata, asked=CatalogSettings(0, columns=ColumnsConfig(key="key")))
    (reason,) = result.rejected["reason"]
    assert reason.startswith("'ja und\nwords ja und")
    assert len(reason) < 500


def test_the_length_of_a_recording_that_is_too_short_is_named_in_microseconds():
    source = FakeSource()
    source.put("a.wav", b"1")

    def probe(file, *, num_bytes):
        return replace(fake_probe(file, num_bytes=num_bytes), sample_rate_hz=3)

    (reason,) = look(source, asked=CatalogSettings(0, min_seconds=1), probe=probe).rejected["reason"]
    assert reason == "0.333333 seconds long, shorter than min_seconds: 1"


# Errors that only decoding shows


def with_faults(result, faults):
    found = [decode_rejects(result.recordings, faults)]
    return replace(result.catalog, rejected=with_decode_rejects(result.rejected, found))


@pytest.mark.medium
def test_decode_errors_are_rejects_until_the_bytes_change(source):
    first = look(source)
    faults = pl.DataFrame({"path": ["a.wav", "b/c.wav"], "code": ["truncated"] * 2, "reason": ["ends early"] * 2})
    joined = with_faults(first, faults)
    check_catalog(joined.recordings, joined.rejected)
    assert joined.rejected["path"].to_list() == ["a.wav", "b/c.wav"]
    same = look(source, joined)
    assert same.rejected.equals(joined.rejected)
    assert with_faults(same, faults).rejected.equals(joined.rejected)
    source.put("a.wav", b"mended", OLD_NS + 1)
    assert codes(look(source, joined), RejectSubject.DECODE) == {"b/c.wav": "truncated"}
    assert with_faults(same, faults.head(0)).rejected.is_empty()


# Properties


@pytest.mark.medium
@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.binary(min_size=1, max_size=3)), max_size=12), st.integers(0, 12)
)
def test_a_repeated_scan_finds_the_same_as_a_first_scan(changes, cut):
    source = FakeSource()
    previous = None
    for step, (path, content) in enumerate(changes):
        if step == cut:
            previous = look(source).catalog
        if content == b"\0":
            source.files.pop(path, None)
        else:
            source.put(path, content, OLD_NS + step)
    upon, first = look(source, previous), look(source)
    assert upon.recordings.equals(first.recordings)
    assert upon.rejected.equals(first.rejected)


def test_listing_order_and_threads_do_not_change_the_catalog(source):
    turned = FakeSource(dict(reversed(source.files.items())))
    few, many = ReadingThreads(1), ReadingThreads(7)
    assert look(source, workers=few).recordings.equals(look(turned, workers=many).recordings)


def test_an_empty_source_is_not_an_error():
    result = look(FakeSource())
    assert (result.num_found, result.recordings.height, result.rejected.height) == (0, 0, 0)


def test_progress_counts_files_that_are_read(source):
    seen = []
    look(source, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
