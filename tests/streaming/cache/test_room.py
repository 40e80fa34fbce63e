"""Ranges and indexes under the limit of a cache: they take what is free, and no more once shards have filled it."""

import os

import pytest

from headrace.streaming.cache.cache import ShardCache


def put(cache: ShardCache, name: str, num_bytes: int) -> None:
    with cache.receive(name, num_bytes) as incoming:
        assert incoming is not None
        incoming.write(bytes(num_bytes))


def kept(cache, name, start=0, stop=100):
    with cache.kept_ranges(name, 100) as found:
        return found.read(start, stop)


def keep(cache, name, num_bytes=100):
    cache.keep_ranges(name, 100, [((0, num_bytes), memoryview(bytes(num_bytes)))])


def test_ranges_are_kept_from_when_a_shard_is_expected_until_it_is_here(tmp_path):
    cache = ShardCache(tmp_path / "cache")
    keep(cache, "a.tar")
    assert not cache.folder.exists()
    cache.expect("a.tar")
    keep(cache, "a.tar")
    assert kept(cache, "a.tar") == bytes(100)
    put(cache, "a.tar", 100)
    cache.expect("a.tar")
    keep(cache, "a.tar")
    assert kept(cache, "a.tar") is None
    assert sorted(path.name for path in cache.folder.iterdir()) == [".lock", "a.tar"]


def test_ranges_count_against_the_limit_and_evict_nothing(tmp_path):
    cache = ShardCache(tmp_path, 1000)
    put(cache, "a.tar", 800)
    for name in ("b.tar", "c.tar", "d.tar"):
        cache.expect(name)
        keep(cache, name)
        assert cache.usage_bytes() <= 1000
    assert [kept(cache, name) is not None for name in ("b.tar", "c.tar", "d.tar")] == [True, False, False]
    assert cache.find("a.tar", 800) is not None


@pytest.mark.parametrize("limit", [1 << 20, 3000])
def test_ranges_do_not_have_a_large_folder_looked_through_for_each(tmp_path, monkeypatch, limit):
    """Neither while there is room nor in a full cache, where most looks find none."""
    cache = ShardCache(tmp_path, limit)
    put(cache, "a.tar", 2900)
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scandir(folder))
    for number in range(100):
        cache.expect(f"{number}.tar")
        keep(cache, f"{number}.tar")
    assert len(looks) == 2
    assert cache.usage_bytes() == 2900 + (100 * 120 if limit > 3000 else 0)


def keep_range(cache, name):
    cache.expect(name)
    keep(cache, name)


@pytest.mark.parametrize("keep_small", [keep_range, lambda cache, name: cache.keep_index(name, bytes(100))])
@pytest.mark.parametrize("filler", ["this process", "another process"])
def test_small_files_stay_below_the_limit_after_shards_have_filled_the_folder(tmp_path, keep_small, filler):
    """Room that a process found for several is gone when a shard takes it."""
    cache = ShardCache(tmp_path, 100_000)
    keep_small(cache, "first.tar")
    put(cache if filler == "this process" else ShardCache(tmp_path, 100_000), "a.tar", 99_700)
    for number in range(20):
        keep_small(cache, f"{number}.tar")
        assert cache.usage_bytes() <= 100_000


def test_ranges_make_room_where_evicting_shards_is_not_enough(tmp_path):
    cache = ShardCache(tmp_path, 1000)
    put(cache, "a.tar", 800)
    cache.expect("b.tar")
    keep(cache, "b.tar")
    put(cache, "c.tar", 800)
    assert kept(cache, "b.tar") is not None
    reader = cache.find("c.tar", 800)
    put(cache, "d.tar", 190)
    assert reader is not None
    assert kept(cache, "b.tar") is None
    assert cache.usage_bytes() <= 1000


def test_a_folder_that_cannot_be_written_keeps_no_ranges_and_says_nothing(tmp_path):
    (tmp_path / "cache").touch()
    cache = ShardCache(tmp_path / "cache", 1000)
    cache.expect("a.tar")
    keep(cache, "a.tar")
    assert kept(cache, "a.tar") is None
