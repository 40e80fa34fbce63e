"""Compressed tars, whole or of several members end to end, in pieces of any size."""

import gzip
import os
import random
import struct

import pytest
import zstandard

from headrace import StreamingDataset, webdataset_loader
from headrace.errors import FormatError, IntegrityError
from headrace.format.tars.unpacking import opened_tar, unpacker_of
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars
from tests.streaming.shards.test_foreign import keys, write_tar
from tests.support.streaming.corpus import clips
from tests.support.tars import tar_of

BLOB = random.Random(7).randbytes(300_000) + bytes(200_000)
SKIPPED = struct.pack("<II", 0x184D2A50, 4) + b"size"


def gz(*parts):
    return b"".join(map(gzip.compress, parts))


def zst(*parts):
    return b"".join(zstandard.ZstdCompressor(write_checksum=True).compress(part) for part in parts)


def pzstd(*parts):
    return b"".join(SKIPPED + zst(part) for part in parts)


def unpacked(name, packed, num_bytes):
    unpacker = unpacker_of(name)
    pieces = [b"".join(unpacker.unpacked(packed[i : i + num_bytes])) for i in range(0, len(packed), num_bytes)]
    unpacker.finish()
    return b"".join(pieces)


def in_blocks(blob, num_bytes=20_000):
    return [blob[i : i + num_bytes] for i in range(0, len(blob), num_bytes)]


@pytest.mark.medium
@pytest.mark.parametrize("num_bytes", [3, 4096, 1 << 30])
@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", gz), ("a.tgz", gz), ("a.tar.zst", zst), ("a.tar.zst", pzstd)])
def test_members_end_to_end_are_one_file(name, pack, num_bytes):
    assert unpacked(name, pack(BLOB), num_bytes) == BLOB
    assert unpacked(name, pack(*in_blocks(BLOB)), num_bytes) == BLOB
    assert unpacked(name, pack(BLOB[:7], b"", BLOB[7:]), num_bytes) == BLOB


@pytest.mark.medium
@pytest.mark.parametrize("num_bytes", [3, 1 << 30])
@pytest.mark.parametrize("behind", [bytes(1000), b"words", bytes(512) + b"x"])
@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", gz), ("a.tar.zst", zst)])
def test_what_follows_the_last_member_is_left_out(name, pack, behind, num_bytes):
    assert unpacked(name, pack(BLOB, BLOB) + behind, num_bytes) == BLOB + BLOB


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", gz), ("a.tar.zst", zst)])
def test_cut_off_and_damaged_files_are_named(name, pack):
    packed = pack(BLOB, BLOB)
    with pytest.raises(IntegrityError, match=rf"{name}: cut off"):
        unpacked(name, packed[:-100], 4096)
    damaged = bytearray(packed)
    damaged[len(packed) * 3 // 4] ^= 1
    with pytest.raises(IntegrityError, match=rf"{name}: damaged"):
        unpacked(name, bytes(damaged), 4096)
    with pytest.raises(IntegrityError, match="not compressed as its name says"):
        unpacked(name, BLOB, 4096)


def test_other_suffixes_are_rejected():
    with pytest.raises(FormatError, match=r"a\.tar\.xz: not a compressed tar"):
        unpacker_of("a.tar.xz")


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", gz), ("a.tgz", gz), ("a.tar.zst", zst), ("a.tar.zst", pzstd)])
def test_webdataset_loader_reads_all_members(tmp_path, name, pack):
    write_tar(tmp_path / "plain", clips(8))
    (tmp_path / name).write_bytes(pack(*in_blocks((tmp_path / "plain").read_bytes())))
    found = [sample["__key__"] for sample in webdataset_loader(tmp_path / name, batch_size=None)]
    assert found == [clip.key for clip in clips(8)]


def test_webdataset_loader_names_a_damaged_shard(tmp_path):
    write_tar(tmp_path / "plain", clips(8))
    (tmp_path / "a.tar.gz").write_bytes(gz(*in_blocks((tmp_path / "plain").read_bytes()))[:-50])
    with pytest.raises(IntegrityError, match=r"a\.tar\.gz: cut off"):
        list(webdataset_loader(tmp_path / "a.tar.gz", batch_size=None))


@pytest.mark.parametrize("behind", [bytes(1000), b"words"])
@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", gz), ("a.tar.zst", zst)])
def test_every_reader_leaves_out_what_follows_the_last_member(tmp_path, name, pack, behind):
    write_tar(tmp_path / "plain", clips(8))
    (tmp_path / name).write_bytes(pack((tmp_path / "plain").read_bytes()) + behind)
    expected = [clip.key for clip in clips(8)]
    assert [sample["__key__"] for sample in webdataset_loader(tmp_path / name, batch_size=None)] == expected
    assert keys(tmp_path / name, local=str(tmp_path / "cache")) == sorted(expected)
    with opened_tar(LocalStorage(tmp_path), name) as opened:
        opened.file.seek(0)
        assert opened.file.read() == (tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("keep_zip", [False, True])
@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", gz), ("a.tgz", gz), ("a.tar.zst", zst), ("a.tar.zst", pzstd)])
def test_a_data_set_reads_all_members(tmp_path, name, pack, keep_zip):
    write_tar(tmp_path / "plain", clips(8))
    (tmp_path / name).write_bytes(pack(*in_blocks((tmp_path / "plain").read_bytes())))
    found = keys(tmp_path / name, local=str(tmp_path / "cache"), keep_zip=keep_zip)
    assert found == sorted(clip.key for clip in clips(8))


@pytest.mark.parametrize("many", [1, 20])
@pytest.mark.parametrize(("ending", "compress"), [(".tar.gz", gzip.compress), (".tar.zst", zstandard.compress)])
def test_a_compressed_tar_whose_name_hides_it_is_called_what_it_is_and_reads_under_the_other_name(
    tmp_path, ending, compress, many
):
    """`tar czf x.tar`: only the name says how a tar is opened."""
    blob = tar_of({f"{number}.bin": os.urandom(600) for number in range(many)})
    (tmp_path / "x.tar").write_bytes(compress(blob))
    for call in (lambda: StreamingDataset(remote=str(tmp_path), batch_size=1), lambda: index_fault(tmp_path)):
        with pytest.raises(FormatError, match=rf"x\.tar: is compressed; give its name the ending \{ending}, or unpack"):
            call()
    (tmp_path / "x.tar").rename(tmp_path / f"x{ending}")
    assert len(StreamingDataset(remote=str(tmp_path), batch_size=1)) == many


def index_fault(folder):
    (found,) = index_tars(str(folder), num_threads=1)
    raise FormatError(found.fault)
