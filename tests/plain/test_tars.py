"""Truncated, damaged and unusual tars in `webdataset_loader`: an incomplete tar is an error that names it."""

import gzip
import io
import json

import pytest
import zstandard

from headrace import webdataset_loader
from headrace.errors import FormatError, IntegrityError, NotFoundError
from headrace.format.indexes.index_entries import group_members
from headrace.format.tars.tar import read_members
from tests.support.tars import tar_of

KEYS = [f"k{number}" for number in range(5)]


WHOLE = tar_of({f"{key}.{name}": blob for key in KEYS for name, blob in (("txt", b"x" * 700), ("json", b"{}"))})
END = 10 * 512 + 5 * (1024 + 512)  # the end of the last member; two empty blocks and padding follow


def read(path):
    return [sample["__key__"] for sample in webdataset_loader(path, batch_size=None)]


@pytest.mark.medium
def test_every_truncation_before_the_end_mark_is_an_error_that_names_the_shard(tmp_path):
    path = tmp_path / "a.tar"
    for stop in range(0, END + 512, 256):
        path.write_bytes(WHOLE[:stop])
        with pytest.raises(FormatError, match=r"a\.tar: "):
            read(path)


def test_a_truncation_is_an_error_although_the_number_of_samples_matches(tmp_path):
    (tmp_path / "a.tar").write_bytes(WHOLE[: END - 1024])  # the last sample lacks its json
    (tmp_path / "sizes.json").write_text(json.dumps({"a.tar": 5}))
    with pytest.raises(FormatError, match=r"a\.tar: .*cut off: no end-of-archive mark at its end; fetch"):
        read(tmp_path)


@pytest.mark.parametrize("stop", [END + 512, END + 700, END + 1024, len(WHOLE)])
def test_missing_padding_after_the_end_mark_is_accepted_as_for_the_index(tmp_path, stop):
    (tmp_path / "a.tar").write_bytes(WHOLE[:stop])
    assert read(tmp_path / "a.tar") == KEYS
    assert len(list(group_members(read_members(io.BytesIO(WHOLE[:stop]), "a.tar"), "a.tar"))) == len(KEYS)


@pytest.mark.parametrize("stop", range(0, END + 512, 512))
def test_both_readers_reject_the_same_truncations(tmp_path, stop):
    (tmp_path / "a.tar").write_bytes(WHOLE[:stop])
    with pytest.raises(FormatError):
        read(tmp_path / "a.tar")
    with pytest.raises(FormatError):
        list(read_members(io.BytesIO(WHOLE[:stop]), "a.tar"))


def test_a_damaged_header_is_an_error(tmp_path):
    damaged = bytearray(WHOLE)
    damaged[512 + 1024 + 5] ^= 1  # inside the name of the second member
    (tmp_path / "a.tar").write_bytes(damaged)
    with pytest.raises(FormatError, match=r"a\.tar: .*damaged, or not a tar: .*; fetch"):
        read(tmp_path)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_a_truncated_tar_that_was_then_compressed_is_an_error(tmp_path, suffix, pack):
    for stop in (END - 1024, END):
        (tmp_path / f"a.tar{suffix}").write_bytes(pack(WHOLE[:stop]))
        with pytest.raises(FormatError, match=r"a\.tar\.\w+: .*no end-of-archive mark"):
            read(tmp_path)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_a_truncated_compressed_tar_is_an_error(tmp_path, suffix, pack):
    packed = pack(WHOLE)
    for stop in (*range(1, len(packed), 5), len(packed) - 1):
        (tmp_path / f"a.tar{suffix}").write_bytes(packed[:stop])
        with pytest.raises(IntegrityError, match=r"a\.tar\.\w+: cut off"):
            read(tmp_path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_an_empty_compressed_tar_is_an_error(tmp_path, suffix):
    (tmp_path / f"a.tar{suffix}").touch()
    with pytest.raises(FormatError, match=r"a\.tar\.\w+: "):
        read(tmp_path)


def test_a_tar_from_a_pipe_must_be_complete(tmp_path):
    (tmp_path / "a.tar").write_bytes(WHOLE[:END])
    with pytest.raises(FormatError, match=r"pipe:cat .*no end-of-archive mark"):
        read(f"pipe:cat {tmp_path}/a.tar")


def test_long_names_metadata_members_and_folders_are_accepted(tmp_path):
    names = ["__notes__/a.txt", "f/" + "n" * 150 + ".txt", "o" * 300 + ".txt"]
    (tmp_path / "a.tar").write_bytes(tar_of(dict.fromkeys(names, b"text")))
    assert read(tmp_path) == ["f/" + "n" * 150, "o" * 300]


def test_the_error_about_a_listed_but_missing_shard_says_what_to_do(tmp_path):
    (tmp_path / "sizes.json").write_text(json.dumps({"gone.tar": 5}))
    with pytest.raises(NotFoundError, match=r"gone\.tar: the shard is not there, though it is listed: fetch .*index"):
        read(tmp_path / "sizes.json")
