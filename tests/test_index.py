import contextlib
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import tables
from headrace.errors import FormatError
from headrace.index import SampleEntry, ShardIndex, build_index, group_members, index_name, payload
from headrace.tar import Member

FIELDS = st.sampled_from(["flac", "json", "pth", "mic.flac", "txt"])
SPANS = st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))
TENSORS = st.none() | st.tuples(*[st.integers(0, 1 << 40)] * 4)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=12)
ENTRIES = st.lists(
    st.builds(
        SampleEntry,
        KEYS,
        st.dictionaries(FIELDS, SPANS, min_size=1),
        st.integers(-1, 1 << 40),
        st.integers(0, 655_350),
        st.integers(0, 8),
        TENSORS,
    ),
    max_size=6,
    unique_by=lambda entry: entry.key,
)


def indexed(entries, **more):
    return build_index(entries, shard="a.tar", num_bytes=7, **more)


@given(ENTRIES, st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3))
def test_an_index_comes_back_whole(entries, notes):
    index = indexed(entries, sha256="ab", input_digest="cd", tensor_dtype="float16", notes=notes)
    found = ShardIndex.from_bytes(index.to_bytes(), "a.idx")
    assert (found.shard, found.num_bytes, found.sha256, found.input_digest) == ("a.tar", 7, "ab", "cd")
    assert (found.tensor_dtype, found.notes) == ("float16", notes)
    assert found.keys() == [entry.key for entry in entries]
    assert found.to_bytes() == index.to_bytes()
    for i, entry in enumerate(entries):
        assert {name: span for name in found.fields if (span := found.range_of(i, name))} == entry.ranges
        assert found.num_frames[i] == entry.num_frames
        assert found.sample_rate_hz[i] == entry.sample_rate_hz
        assert found.num_channels[i] == entry.num_channels
        assert tuple(found.tensors[i]) == (entry.tensor or (-1,) * 4)


def test_a_field_that_no_sample_has_is_absent():
    index = indexed([SampleEntry("a", {"flac": (0, 5)}), SampleEntry("b", {"json": (6, 9)})])
    assert index.range_of(0, "json") is None
    assert index.range_of(0, "txt") is None
    assert index.range_of(1, "json") == (6, 9)


def test_names_that_are_not_utf8_survive():
    key = b"caf\xe9".decode(errors="surrogateescape")
    assert ShardIndex.from_bytes(indexed([SampleEntry(key, {"json": (0, 1)})]).to_bytes(), "a.idx").keys() == [key]


def test_another_format_version_is_refused_by_number():
    blob = indexed([]).to_bytes().replace(b'"headrace_index":"1"', b'"headrace_index":"9"')
    with pytest.raises(FormatError, match=r"a\.idx: index format 9"):
        ShardIndex.from_bytes(blob, "a.idx")


BLOB = indexed([SampleEntry("a", {"flac": (0, 5)})], notes={"n": "v"}).to_bytes()


@given(st.integers(8, len(BLOB) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_read_but_never_another_error(place, change):
    blob = bytearray(BLOB)
    blob[place] ^= change
    with contextlib.suppress(FormatError):
        ShardIndex.from_bytes(bytes(blob), "a.idx")


def test_a_flipped_bit_in_a_number_is_refused():
    """A latent would else be read from the wrong place, and be noise that nobody notices."""
    blob = bytearray(BLOB)
    blob[BLOB.index((5).to_bytes(8, "little"), 200)] ^= 1
    with pytest.raises(FormatError, match=r"a\.idx: damaged .*remove it and build again"):
        ShardIndex.from_bytes(bytes(blob), "a.idx")


def test_an_index_written_before_there_were_checksums_is_read():
    metadata = {"headrace_index": "1", "shard": "a.tar", "num_bytes": "0", "sha256": "", "input_digest": ""}
    index = indexed([SampleEntry("a", {"flac": (0, 5)})])
    columns = ("key_bytes", "key_offsets", "ranges", "num_frames", "sample_rate_hz", "num_channels", "tensors")
    arrays = {name: getattr(index, name) for name in columns}
    blob = tables.pack(arrays, metadata | {"fields": "flac", "tensor_dtype": ""})
    assert ShardIndex.from_bytes(blob, "a.idx").keys() == ["a"]


def members(*names):
    return [Member(name, number * 10, number * 10 + 5) for number, name in enumerate(names)]


def grouped(*names):
    return {entry.key: sorted(entry.ranges) for entry in group_members(members(*names), "x.tar")}


def test_neighbours_with_one_key_are_one_sample():
    assert grouped("a.flac", "a.json", "b.flac") == {"a": ["flac", "json"], "b": ["flac"]}


def test_the_key_ends_at_the_first_dot_of_the_last_component():
    assert grouped("v1.0/a.mic.flac", "v1.0/a.json") == {"v1.0/a": ["json", "mic.flac"]}


def test_fields_are_lower_case_and_files_without_one_or_of_metadata_are_no_samples():
    assert grouped("a.FLAC", "README", "__meta__", "__index__/x.json", "b.JSON") == {"a": ["flac"], "b": ["json"]}


def test_webdataset_finds_the_same_samples():
    from webdataset.tariterators import group_by_keys

    names = ["d.e/a.Flac", "d.e/a.x.json", "b.flac", "README", "c.json", "c.flac", "a.txt"]
    files = [{"fname": name, "data": b"", "__url__": "x"} for name in names]
    theirs = {s["__key__"]: sorted(k for k in s if k[:2] != "__") for s in group_by_keys(files)}
    assert grouped(*names) == theirs


def test_a_key_that_comes_back_is_refused():
    with pytest.raises(FormatError, match=r"x\.tar: the files of sample 'a' are not neighbours"):
        grouped("a.flac", "b.flac", "a.json")


def test_a_field_twice_in_a_sample_is_refused():
    with pytest.raises(FormatError, match="'a' has two fields 'flac'"):
        grouped("a.flac", "a.FLAC")


def test_payloads_are_cut_from_the_open_tar():
    assert payload(io.BytesIO(b"0123456789"), (3, 6)) == b"345"


def test_an_index_needs_less_than_a_hundred_bytes_a_sample():
    entries = [
        SampleEntry(f"recording_{n:08d}", {"flac": (n, n + 1), "json": (n, n + 1)}, 220_500, 44_100, 1)
        for n in range(1000)
    ]
    assert len(indexed(entries).to_bytes()) < 110_000
    assert index_name("train_0000_000000-0123456789ab.tar") == "train_0000_000000-0123456789ab.idx"
    assert indexed([]).ranges.shape == (0, 0, 2)
    assert indexed(entries).num_frames.dtype == np.int64
