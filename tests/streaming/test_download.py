"""Bringing a shard: how often it is asked for, who waits for whom, and what a compressed one may cost."""

import contextlib
import gc
import gzip
import hashlib
import os
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from headrace.errors import IntegrityError, StorageError
from headrace.streaming.settings import FetchConfig
from headrace.streaming.shards import download, retry
from headrace.streaming.shards.cache import CacheFullError, ShardCache
from headrace.streaming.shards.download import Delivery, Downloader
from headrace.streaming.shards.unpacking import unpacker_of
from headrace.streaming.stats import Traffic

CONTENT = bytes(range(256)) * 40


class Store:
    """A store that fails as often as it is told to; it notes what is asked."""

    uri = "s3://bucket"

    def __init__(self, blobs):
        self.blobs, self.asked, self.failures = blobs, [], 0

    def read_ranges(self, path, ranges):
        self.asked.extend(ranges)
        if self.failures:
            self.failures -= 1
            raise StorageError("the store is out of order")
        return [self.blobs[path][start:stop] for start, stop in ranges]


class Clock:
    """Time that passes only by sleeping; `then` is called after each time."""

    def __init__(self):
        self.now, self.then = 0.0, lambda: None

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.then()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(download, "time", clock)
    monkeypatch.setattr(retry, "time", clock)
    return clock


@pytest.fixture
def store(clock):
    return Store({"a.tar": CONTENT, "a.tar.gz": gzip.compress(CONTENT)})


@pytest.fixture
def cache(tmp_path):
    return ShardCache(tmp_path / "cache")


def delivery(store, source="a.tar"):
    index = SimpleNamespace(num_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    return Delivery(source, "a.tar", index, len(store.blobs[source]))


def downloader(store, cache, **config):
    return Downloader(store, cache, FetchConfig(**config), Traffic())


def is_whole(cache):
    found = cache.find("a.tar", len(CONTENT))
    return found is not None and bytes(found.read(0, len(CONTENT))) == CONTENT


@pytest.mark.parametrize("num_retries", [0, 2])
@pytest.mark.parametrize("source", ["a.tar", "a.tar.gz"])
def test_a_store_that_fails_is_asked_once_and_as_often_again_as_was_said(store, cache, num_retries, source):
    store.failures = 100
    with pytest.raises(StorageError, match=rf"/{source}: failed {1 + num_retries} times.*out of order"):
        downloader(store, cache, download_retry=num_retries).bring(delivery(store, source))
    assert len(store.asked) == 1 + num_retries
    assert cache.usage_bytes() == 0


def test_a_compressed_shard_beside_the_cache_is_asked_for_as_often(store, cache):
    store.failures = 100
    with pytest.raises(StorageError, match="failed 3 times"):
        downloader(store, cache, download_retry=2).bring_apart(delivery(store, "a.tar.gz"))
    assert len(store.asked) == 3


def test_a_piece_that_failed_is_asked_for_again_and_no_other(store, cache, monkeypatch):
    monkeypatch.setattr(download, "_PIECE_BYTES", 4096)
    store.failures = 2
    assert downloader(store, cache, download_retry=2).bring(delivery(store))
    assert store.asked == [(0, 4096)] * 3 + [(4096, 8192), (8192, len(CONTENT))]
    assert is_whole(cache)


def test_a_shard_that_comes_damaged_is_brought_again_as_often_as_was_said(store, cache):
    store.blobs["a.tar"] = CONTENT.swapcase()
    with pytest.raises(IntegrityError, match=r"/a\.tar: failed 3 times, .*SHA-256"):
        downloader(store, cache, download_retry=2).bring(delivery(store))
    assert len(store.asked) == 3


def test_who_brings_a_shard_and_writes_nothing_is_not_waited_for_without_end(store, cache, clock):
    with contextlib.suppress(RuntimeError), cache.receive("a.tar", len(CONTENT)):
        with pytest.raises(CacheFullError, match=r"bringing a\.tar, but has written nothing for 7 s"):
            downloader(store, cache, download_timeout_seconds=7).bring(delivery(store, "a.tar.gz"))
        raise RuntimeError  # it gives up in the end
    assert 7 <= clock.now < 8
    assert not store.asked


def test_who_brings_a_shard_slowly_is_waited_for(store, cache, clock):
    part = cache.folder / ".a.tar.part"
    with contextlib.ExitStack() as bringing:
        incoming = bringing.enter_context(cache.receive("a.tar", len(CONTENT)))

        def write_on():
            """A little each time, and the last of it after twenty times as long as anybody waits for nothing."""
            os.utime(part, ns=(0, int(clock.now * 1e9)))
            if clock.now > 140:
                clock.then = lambda: None
                incoming.write(CONTENT)
                bringing.close()

        clock.then = write_on
        assert not downloader(store, cache, download_timeout_seconds=7).bring(delivery(store, "a.tar.gz"))
    assert is_whole(cache)
    assert not store.asked


def test_what_another_one_gave_up_is_brought(store, cache, clock):
    bringing = contextlib.ExitStack()
    bringing.enter_context(contextlib.suppress(RuntimeError))
    bringing.enter_context(cache.receive("a.tar", len(CONTENT)))
    clock.then = lambda: bringing.__exit__(RuntimeError, RuntimeError(), None)
    assert downloader(store, cache, download_retry=1).bring(delivery(store, "a.tar.gz"))
    assert is_whole(cache)


@pytest.mark.parametrize("room", [0, 100, 10**6])
def test_a_cache_without_room_for_the_compressed_form_keeps_the_shard_alone(store, cache, room):
    cache.limit_bytes = len(CONTENT) + room
    downloader(store, cache, keep_zip=True).bring(delivery(store, "a.tar.gz"))
    assert is_whole(cache)
    assert (cache.folder / "a.tar.gz").exists() == (room == 10**6)
    assert len(store.asked) == 1


def test_a_disk_that_fails_at_the_compressed_form_keeps_the_shard_alone(store, cache, monkeypatch):
    monkeypatch.setattr(download, "_PIECE_BYTES", 100)
    receive = cache.receive

    @contextlib.contextmanager
    def receive_little(name, *more):
        with receive(name, *more) as incoming:
            yield Little(incoming.file_descriptor) if name == "a.tar.gz" else incoming

    monkeypatch.setattr(cache, "receive", receive_little)
    downloader(store, cache, keep_zip=True).bring(delivery(store, "a.tar.gz"))
    assert is_whole(cache)
    assert not (cache.folder / "a.tar.gz").exists()


class Little(download.Incoming):
    """A file that takes one piece."""

    __slots__ = ()

    def write(self, data):
        if os.lseek(self.file_descriptor, 0, os.SEEK_CUR):
            raise download.CacheUnusableError("the disk is full after all")
        super().write(data)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.zst"])
def test_a_small_file_of_much_comes_in_bounded_pieces(name):
    """A hostile shard of some KiB may say gigabytes: they must not be in memory at once."""
    num_bytes = 256 << 20
    packed = _packed_zeros(name, num_bytes)
    unpacker, sizes = unpacker_of(name), []
    for piece in unpacker.unpacked(packed):
        sizes.append(len(piece))
        assert not np.frombuffer(piece, np.uint8).any()
    unpacker.finish()
    assert sum(sizes) == num_bytes
    assert max(sizes) <= 65 << 20


def _packed_zeros(name, num_bytes):
    if name.endswith(".zst"):
        return zstandard.compress(bytes(num_bytes))
    block = 1 << 20
    return gzip.compress(bytes(block)) * (num_bytes // block)


def test_an_error_that_is_dropped_is_gone_at_once():
    """With whatever the frames of its traceback hold: batches, and open files."""
    alive = []

    class FailedError(StorageError):
        def __init__(self, message):
            super().__init__(message)
            alive.append(weakref.ref(self))

    def fail():
        raise FailedError("as a test")

    gc.disable()
    try:
        with contextlib.suppress(StorageError):
            retry.retried(fail, FetchConfig(download_retry=0), "a shard")
        assert [error() for error in alive] == [None, None]
    finally:
        gc.enable()
