"""Open shards are read by ranges, and errors name the file and the way out."""

import os
import subprocess
import sys
import textwrap
import zlib

import pytest

from headrace.errors import IntegrityError, NotAFileError, NotFoundError
from headrace.streaming.cache.opened import BlobShard, FileShard, StoredField, fields_of, is_stored

BLOB = bytes(range(200))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "shard.tar").write_bytes(BLOB)
    return tmp_path / "shard.tar"


OPEN_ONE = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    from headrace.streaming.cache.opened import FileShard
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    FileShard(Path(sys.argv[1]))
""")


@pytest.mark.medium
def test_a_process_that_may_open_no_more_files_gets_an_error_with_a_remedy(path):
    done = subprocess.run([sys.executable, "-c", OPEN_ONE, str(path)], capture_output=True, text=True, check=False)
    assert "StorageError" in done.stderr
    assert "ulimit -n" in done.stderr


def test_ranges_of_a_file_are_read_and_its_end_is_noticed(path):
    shard = FileShard(path, len(BLOB))
    out = bytearray(10)
    shard.read_into(5, memoryview(out))
    assert (bytes(shard.read(5, 15)), bytes(out)) == (BLOB[5:15], BLOB[5:15])
    os.truncate(path, 100)
    for read in (lambda: shard.read(90, 110), lambda: shard.read_into(90, memoryview(bytearray(20)))):
        with pytest.raises(IntegrityError, match=r"shard\.tar: bytes up to 110 expected, file ends at 100"):
            read()


def test_a_file_that_is_missing_of_another_size_or_no_file_is_an_error_by_name(path):
    with pytest.raises(NotFoundError, match=r"gone\.tar: the shard is gone"):
        FileShard(path.with_name("gone.tar"))
    with pytest.raises(IntegrityError, match="201 bytes expected, 200 found"):
        FileShard(path, 201)
    with pytest.raises(NotAFileError):
        FileShard(path.parent)


def test_a_file_is_closed_with_its_shard(path):
    descriptor = FileShard(path).file_descriptor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_fields_of_a_sample_are_named_and_those_that_it_lacks_are_left_out():
    found = fields_of("k", ["flac", "json", "txt"], [0, 10, -1, -1, 20, 30], [7, -1, -1])
    assert found == [StoredField("k.flac", 0, 10, 7), StoredField("k.txt", 20, 30, -1)]


def test_a_field_is_stored_if_its_bytes_have_their_checksum(path):
    descriptor = FileShard(path)
    right = zlib.crc32(BLOB[10:30])
    assert is_stored(StoredField("k.txt", 10, 30, right), descriptor.file_descriptor)
    assert not is_stored(StoredField("k.txt", 11, 31, right), descriptor.file_descriptor)
    assert is_stored(StoredField("k.txt", 11, 31, -1), descriptor.file_descriptor)


def test_pieces_in_memory_are_read_where_one_covers_the_range_the_newest_first():
    shard = BlobShard("a.tar")
    shard.add([(10, 20), (30, 40)], [BLOB[10:20], BLOB[30:40]])
    assert bytes(shard.read(12, 20)) == BLOB[12:20]
    with pytest.raises(IntegrityError, match=r"a\.tar: bytes 15\.\.35 were not fetched"):
        shard.read(15, 35)
    shard.add([(10, 20)], [bytes(10)])
    out = bytearray(4)
    shard.read_into(10, memoryview(out))
    assert bytes(out) == bytes(4)


def test_a_damaged_field_is_an_error_for_every_range_that_touches_it():
    shard = BlobShard("a.tar")
    shard.add([(0, 40)], [BLOB[:40]])
    field = StoredField("k.txt", 10, 20, 1)
    assert not shard.is_sound(field)
    assert shard.is_sound(StoredField("k.txt", 10, 20, zlib.crc32(BLOB[10:20])))
    shard.mark_damaged(field, "also after another attempt")
    with pytest.raises(IntegrityError, match=r"a\.tar: k\.txt, bytes 10\.\.20: CRC-32 00000001 expected, .*also after"):
        shard.read(19, 25)
    assert bytes(shard.read(20, 25)) == BLOB[20:25]
