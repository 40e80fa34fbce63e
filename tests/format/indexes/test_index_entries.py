"""Tests of `headrace.format.indexes.index_entries`."""

import json

import numpy as np
import pytest

from headrace.errors import FormatError
from headrace.format.indexes.index import REFUSED_NOTE, index_name
from headrace.format.indexes.index_entries import SampleEntry, group_members
from headrace.format.indexes.index_files import parse_index
from headrace.format.tars.tar import Member
from tests.support.index import indexed


def test_samples_whose_latents_were_rejected_are_listed_and_have_no_length():
    entries = [
        SampleEntry(key, {"json": (n, n + 1)}, num_frames=9 if key == "a" else -1) for n, key in enumerate("abc")
    ]
    notes = {REFUSED_NOTE: json.dumps([{"key": "c", "reason": "why"}, {"key": "b", "reason": "not"}, {"path": "x"}])}
    index = indexed(entries, notes=notes)
    assert index.rejections == {"c": "why", "b": "not"}
    assert index.rejected == ("b", "c")
    assert index.lengths.tolist() == [9, 0, 0]
    assert indexed(entries).rejected == ()
    assert indexed(entries).lengths.tolist() == [9, -1, -1]


@pytest.mark.parametrize("note", ["{", "5", "[5]", '[{"key": "b"}]'])
def test_a_damaged_list_of_rejections_is_an_error(note):
    index = indexed([SampleEntry("b", {"json": (0, 1)})], notes={REFUSED_NOTE: note})
    with pytest.raises(FormatError, match=r"a\.tar: damaged index"):
        _ = index.rejected


def test_a_sample_is_found_by_its_key():
    index = indexed([SampleEntry(key, {"json": (n, n + 1)}) for n, key in enumerate("abc")])
    assert [index.find(key) for key in "cabx"] == [2, 0, 1, None]
    assert index.keys_of([2, 0]) == ["c", "a"]


def test_a_field_that_no_sample_has_is_absent():
    index = indexed([SampleEntry("a", {"flac": (0, 5)}), SampleEntry("b", {"json": (6, 9)})])
    assert index.range_of(0, "json") is None
    assert index.range_of(0, "txt") is None
    assert index.range_of(1, "json") == (6, 9)


def test_names_that_are_not_utf8_survive_a_round_trip():
    key = b"caf\xe9".decode(errors="surrogateescape")
    assert parse_index(indexed([SampleEntry(key, {"json": (0, 1)})]).to_bytes(), "a.idx").keys() == [key]


def members(*names):
    return [Member(name, number * 10, number * 10 + 5) for number, name in enumerate(names)]


def grouped(*names):
    return {entry.key: sorted(entry.ranges) for entry in group_members(members(*names), "x.tar")}


def test_adjacent_members_with_one_key_are_one_sample():
    assert grouped("a.flac", "a.json", "b.flac") == {"a": ["flac", "json"], "b": ["flac"]}


def test_the_key_ends_at_the_first_dot_of_the_last_component():
    assert grouped("v1.0/a.mic.flac", "v1.0/a.json") == {"v1.0/a": ["json", "mic.flac"]}


def test_fields_are_lower_case_and_members_without_extension_or_of_metadata_are_not_samples():
    assert grouped("a.FLAC", "README", "__meta__", "__index__/x.json", "b.JSON") == {"a": ["flac"], "b": ["json"]}


def test_webdataset_finds_the_same_samples():
    from webdataset.tariterators import group_by_keys

    names = ["d.e/a.Flac", "d.e/a.x.json", "b.flac", "README", "c.json", "c.flac", "a.txt"]
    files = [{"fname": name, "data": b"", "__url__": "x"} for name in names]
    theirs = {s["__key__"]: sorted(k for k in s if k[:2] != "__") for s in group_by_keys(files)}
    assert grouped(*names) == theirs


def test_a_key_that_returns_after_another_is_an_error():
    with pytest.raises(FormatError, match=r"x\.tar: the files of sample 'a' are not neighbours"):
        grouped("a.flac", "b.flac", "a.json")


def test_the_error_about_keys_with_dots_names_key_at():
    with pytest.raises(
        FormatError, match=r"'a' are not neighbours; write the shard again, sorted; or, if keys hold dots"
    ):
        grouped("a.01.flac", "b.flac", "a.02.flac")
    with pytest.raises(FormatError, match=r"sorted$"):
        grouped("a.flac", "b.flac", "a.json")


def test_a_duplicate_field_in_a_sample_is_an_error():
    with pytest.raises(FormatError, match="'a' has two fields 'flac'"):
        grouped("a.flac", "a.FLAC")


def test_an_index_needs_about_120_bytes_per_sample():
    entries = [
        SampleEntry(f"recording_{n:08d}", {"flac": (n, n + 1), "json": (n, n + 1)}, 220_500, 44_100, 1)
        for n in range(1000)
    ]
    assert len(indexed(entries).to_bytes()) < 126_000
    assert index_name("train_0000_000000-0123456789ab.tar") == "train_0000_000000-0123456789ab.idx"
    assert indexed([]).ranges.shape == (0, 0, 2)
    assert indexed(entries).num_frames.dtype == np.int64
