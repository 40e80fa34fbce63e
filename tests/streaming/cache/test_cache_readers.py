"""Tests of `headrace.streaming.cache.cache_readers`."""

import multiprocessing
import os
import signal

import pytest

from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.cache.cache_readers import ReadData, ReaderFacts, readers
from tests.support.eviction import put

OURS = (ReadData("memory://ours", "train"),)


def facts(order="A", rank=0, world_size=1, data=OURS):
    return ReaderFacts(order, rank, world_size, data)


def test_readers_find_each_other_until_they_close(tmp_path):
    cache = ShardCache(tmp_path)
    first, second = cache.register(facts()), ShardCache(tmp_path).register(facts("B", 1, 2))
    first.moved(3, 40)
    found = {reader.facts.order: reader for reader in readers(tmp_path)}
    assert found["A"].facts == facts()
    assert (found["A"].epoch, found["A"].row) == (3, 40)
    assert (found["B"].facts.rank, found["B"].facts.world_size, found["B"].row) == (1, 2, 0)
    second.close()
    assert [reader.facts.order for reader in readers(tmp_path)] == ["A"]
    first.close()
    assert list(tmp_path.glob(".reader-*")) == []


def _register_and_wait(folder, registered):
    kept = ShardCache(folder).register(facts())  # noqa: F841 - its lock is held
    registered.set()
    signal.pause()


def test_a_killed_reader_is_none_and_its_file_goes(tmp_path):
    context = multiprocessing.get_context("fork")
    registered = context.Event()
    process = context.Process(target=_register_and_wait, args=(tmp_path, registered))
    process.start()
    assert registered.wait(60)
    assert len(readers(tmp_path)) == 1
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert readers(tmp_path) == []
    assert len(list(tmp_path.glob(".reader-*"))) == 1
    put(ShardCache(tmp_path, 1000), "a.tar")
    assert list(tmp_path.glob(".reader-*")) == []


@pytest.mark.parametrize("content", [b"", b"short", bytes(16) + b"{", bytes(16) + b"[]", b"\xff" * 16 + b"{}"])
def test_an_unreadable_file_of_a_reader_is_ignored(tmp_path, content):
    cache = ShardCache(tmp_path)
    registered = cache.register(facts())
    (path,) = tmp_path.glob(".reader-*")
    path.write_bytes(content)
    assert readers(tmp_path) == []
    registered.close()


def test_files_of_readers_stay_under_the_limit(tmp_path):
    cache = ShardCache(tmp_path, 1000)
    for name in "abcdefghij":
        put(cache, f"{name}.tar")
    registered = [cache.register(facts()) for _ in range(3)]
    assert cache.usage_bytes() <= 1000
    assert len(readers(tmp_path)) == 3
    for one in registered:
        one.close()


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [("train", "train", True), ("train", "test", False), (None, "test", True), ("train", None, True)],
)
def test_data_of_two_jobs_overlap_within_a_split(one, other, is_shared):
    assert ReadData("s3://b/audio", one).overlaps(ReadData("s3://b/audio", other)) is is_shared
    assert not ReadData("s3://b/audio", one).overlaps(ReadData("s3://b/other", other))
