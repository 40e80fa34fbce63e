"""Evictions that keep the cache under its limit, to the byte, and the treatment of files that are not shards."""

import errno
import fcntl
import os
import stat
import time

import pytest

from headrace.streaming.cache.cache import CacheUnusableError, ShardCache
from headrace.streaming.cache.eviction import coldest_first

SHARDS = ("a.tar", "b.tar")


def put(cache: ShardCache, name: str, num_bytes: int) -> None:
    with cache.receive(name, num_bytes) as incoming:
        assert incoming is not None
        incoming.write(bytes(num_bytes))


@pytest.fixture
def full(tmp_path):
    """A cache of 200 bytes with two shards of 100; the second was used later."""
    cache = ShardCache(tmp_path, 200)
    for second, name in enumerate(SHARDS):
        put(cache, name, 100)
        os.utime(tmp_path / name, (second, second))
    return cache


def names(cache):
    return sorted(path.name for path in cache.folder.iterdir() if path.name[0] != ".")


def test_no_more_is_evicted_than_a_shard_needs(full):
    put(full, "c.tar", 100)
    assert names(full) == ["b.tar", "c.tar"]
    put(full, "d.tar", 99)
    assert names(full) == ["c.tar", "d.tar"]


def test_one_byte_more_than_is_free_evicts_a_shard(full):
    full.limit_bytes = 300
    put(full, "c.tar", 101)
    assert names(full) == ["b.tar", "c.tar"]


def test_a_shard_of_exactly_the_limit_fits_and_one_byte_more_does_not(tmp_path):
    cache = ShardCache(tmp_path, 100)
    put(cache, "a.tar", 100)
    with pytest.raises(CacheUnusableError, match="a shard is larger than cache_limit=100: raise it"):
        put(cache, "b.tar", 101)
    assert names(cache) == ["a.tar"]


def test_shards_to_keep_are_not_evicted(full):
    assert full.evict_coldest(keep=["a.tar"]) == "b.tar"
    assert full.evict_coldest(keep=["a.tar"]) is None
    assert full.evict_coldest() == "a.tar"
    full.keep_index("c.tar", b"index")
    assert full.evict_coldest() is None


@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_use_of_a_shard_counts_and_not_that_of_its_index(reverse):
    listed = [(".lock", 0, 99), ("a.tar", 100, 5), ("a.tar.idx", 10, 9), ("b.tar", 100, 6), ("b.tar.idx", 10, 1)]
    listed.append(("c.tar.idx", 20, 7))
    coldest = coldest_first(sorted(listed, reverse=reverse), ".idx")
    found = [(kept.name, kept.is_shard, kept.num_bytes, kept.used_ns) for kept in coldest]
    assert found == [("c.tar", False, 20, 7), ("a.tar", True, 110, 5), ("b.tar", True, 110, 6)]


def test_an_index_that_fits_exactly_evicts_nothing(tmp_path):
    cache = ShardCache(tmp_path, 200)
    put(cache, "a.tar", 100)
    for name, num_bytes in (("b.tar", 40), ("c.tar", 60)):
        cache.keep_index(name, bytes(num_bytes))
    assert names(cache) == ["a.tar", "b.tar.idx", "c.tar.idx"]


@pytest.mark.parametrize("sizes", [[10] * 60, [64, 2, 2]])
def test_small_indexes_never_exceed_the_limit(tmp_path, sizes):
    limit = 6400 if len(sizes) > 3 else 164
    cache = ShardCache(tmp_path, limit)
    put(cache, "a.tar", limit - 400 if len(sizes) > 3 else 100)
    held = cache.find("a.tar", cache.usage_bytes())
    assert held is not None
    for number, num_bytes in enumerate(sizes):
        cache.keep_index(f"{number}.tar", bytes(num_bytes))
        assert cache.usage_bytes() <= limit


def test_a_shard_that_is_being_written_counts_and_stays_when_room_is_made(tmp_path):
    cache = ShardCache(tmp_path, 200)
    with cache.receive("a.tar", 100) as incoming:
        put(cache, "b.tar", 100)
        with pytest.raises(CacheUnusableError, match="in use"), cache.receive("c.tar", 101):
            raise AssertionError("there is no room")
        incoming.write(bytes(100))
    assert names(cache) == ["a.tar"]


def test_folders_of_any_depth_are_made_and_files_have_the_usual_rights(tmp_path):
    cache = ShardCache(tmp_path / "deep" / "down")
    assert cache.usage_bytes() == 0
    put(cache, "a.tar", 5)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((cache.folder / "a.tar").stat().st_mode) == 0o644 & ~umask


def test_what_is_absent_is_evicted_and_not_being_written(tmp_path):
    cache = ShardCache(tmp_path)
    assert cache.evict("a.tar")
    assert cache.written_ns("a.tar") == 0
    assert not cache.is_arriving("a.tar")
    with cache.receive("a.tar", 1) as incoming:
        assert cache.written_ns("a.tar") > 0
        incoming.write(b"a")


def test_a_folder_and_a_link_to_itself_are_no_shards(tmp_path):
    cache = ShardCache(tmp_path)
    (tmp_path / "a.tar").mkdir()
    assert cache.find("a.tar", 5) is None
    (tmp_path / "b.tar").symlink_to("b.tar")
    assert not cache.evict("b.tar")


def test_a_pipe_blocks_nobody(tmp_path):
    os.mkfifo(tmp_path / "a.tar")
    os.mkfifo(tmp_path / ".b.tar.part")
    cache = ShardCache(tmp_path, 100)
    assert not cache.is_arriving("a.tar")
    assert not cache.is_arriving("b.tar")
    put(cache, "c.tar", 100)
    assert not (tmp_path / ".b.tar.part").exists()
    assert cache.evict("a.tar")


def test_a_damaged_copy_is_discarded_unless_another_has_its_name(tmp_path):
    cache = ShardCache(tmp_path)
    put(cache, "a.tar", 5)
    old = cache.find("a.tar", 5)
    (tmp_path / "new").write_bytes(bytes(5))
    (tmp_path / "new").rename(tmp_path / "a.tar")
    assert not cache.discard_copy(old)
    assert cache.discard_copy(cache.find("a.tar", 5))
    assert names(cache) == []


def test_a_disk_that_fills_while_a_shard_is_written_is_an_error_of_the_cache(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = ShardCache(tmp_path)
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(CacheUnusableError, match="No space left"):
        put(cache, "a.tar", 5)
    assert names(cache) == []


def test_a_file_system_without_locks_is_used_without_them(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    cache = ShardCache(tmp_path, 100)
    put(cache, "a.tar", 100)
    assert cache.find("a.tar", 100) is not None
    put(cache, "b.tar", 100)
    assert names(cache) == ["b.tar"]
    with cache.receive("c.tar", 100) as incoming:
        with pytest.raises(CacheUnusableError, match="in use"):
            put(ShardCache(tmp_path, 100), "d.tar", 100)
        incoming.write(bytes(100))
    assert names(cache) == ["c.tar"]


def test_a_lock_that_is_taken_is_tried_for_ten_milliseconds(tmp_path, monkeypatch):
    pauses = []
    cache = ShardCache(tmp_path)
    with cache.receive("a.tar", 2) as incoming:
        monkeypatch.setattr(time, "sleep", pauses.append)
        with cache.receive("a.tar", 2) as second:
            assert second is None
        incoming.write(b"hi")
    assert pauses == [0.002] * 5
