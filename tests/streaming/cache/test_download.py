"""Bringing a shard: how often it is asked for, who waits for whom, and what a compressed one may cost."""

import contextlib
import dataclasses
import gzip
import hashlib
import os
import zlib
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from headrace.errors import IntegrityError, StorageError
from headrace.format.indexes.index_entries import SampleEntry, build_index
from headrace.format.tars.unpacking import unpacker_of
from headrace.stores import refetch
from headrace.streaming.cache import download, kept_ranges
from headrace.streaming.cache.cache import CacheFullError, ShardCache
from headrace.streaming.cache.download import Downloader, ShardDownload
from headrace.streaming.settings import FetchSettings
from headrace.streaming.stats import Traffic
from tests.support.dropped_errors import alive_after

CONTENT = bytes(range(256)) * 40


class Store:
    """A store that fails a given number of times; it records the requests."""

    uri = "s3://bucket"

    def __init__(self, blobs):
        self.blobs, self.asked, self.failures = blobs, [], 0
        self.damage = bytes  # what it does to its next answer

    def local_path(self, path):
        """None: it is no folder."""

    def read_ranges(self, path, ranges):
        self.asked.extend(ranges)
        if self.failures:
            self.failures -= 1
            raise StorageError("the store is out of order")
        damage, self.damage = self.damage, bytes
        return [damage(self.blobs[path][start:stop]) for start, stop in ranges]


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
    monkeypatch.setattr(refetch, "wait", lambda seconds: clock.sleep(seconds) is None)
    return clock


@pytest.fixture
def store(clock):
    return Store({"a.tar": CONTENT, "a.tar.gz": gzip.compress(CONTENT)})


@pytest.fixture
def cache(tmp_path):
    return ShardCache(tmp_path / "cache")


def delivery(store, source="a.tar"):
    index = SimpleNamespace(num_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    return ShardDownload(store, source, "a.tar", index, len(store.blobs[source]))


def downloader(store, cache, **config):
    return Downloader(cache, FetchSettings(**config), Traffic())


def is_whole(cache):
    found = cache.find("a.tar", len(CONTENT))
    return found is not None and bytes(found.read(0, len(CONTENT))) == CONTENT


@pytest.mark.parametrize("source", ["a.tar", "a.tar.gz"])
def test_a_store_that_has_failed_for_good_is_not_asked_again(store, cache, source):
    """It was asked as often as was said where the request was sent: attempts must not multiply."""
    store.failures = 1
    with pytest.raises(StorageError, match="out of order"):
        downloader(store, cache, download_retry=2).fetch(delivery(store, source))
    store.failures = 1
    with pytest.raises(StorageError, match="out of order"):
        downloader(store, cache, download_retry=2).fetch_unnamed(delivery(store, "a.tar.gz"))
    assert len(store.asked) == 2
    assert cache.usage_bytes() == 0


def test_a_shard_comes_in_pieces(store, cache, monkeypatch):
    monkeypatch.setattr(download, "pieces", partial(download.pieces, max_bytes=4096))
    assert downloader(store, cache).fetch(delivery(store))
    assert store.asked == [(0, 4096), (4096, 8192), (8192, len(CONTENT))]
    assert is_whole(cache)


@pytest.fixture
def all_ranges_count(monkeypatch):
    monkeypatch.setattr(kept_ranges, "_LEAST_BYTES", 1)


def keep(cache, *spans, content=CONTENT):
    cache.expect("a.tar")
    cache.keep_ranges("a.tar", len(CONTENT), [(span, memoryview(content[slice(*span)])) for span in spans])


@pytest.mark.usefixtures("all_ranges_count")
def test_only_the_gaps_between_kept_ranges_are_fetched(store, cache, monkeypatch):
    monkeypatch.setattr(download, "pieces", partial(download.pieces, max_bytes=4096))
    keep(cache, (100, 200), (4000, 9000))
    traffic = Traffic()
    assert Downloader(cache, FetchSettings(), traffic).fetch(delivery(store))
    assert store.asked == [(0, 100), (200, 4000), (9000, len(CONTENT))]
    assert traffic.counts().num_bytes_needed == len(CONTENT) - 5100
    assert is_whole(cache)
    assert not list(cache.folder.glob(".*.ranges"))


@pytest.mark.usefixtures("all_ranges_count")
def test_ranges_that_are_kept_during_the_download_are_not_fetched(store, cache, monkeypatch):
    monkeypatch.setattr(download, "pieces", partial(download.pieces, max_bytes=4096))
    cache.expect("a.tar")
    store.damage = lambda blob: keep(cache, (5000, 6000)) or blob  # while the first piece comes
    assert downloader(store, cache).fetch(delivery(store))
    assert store.asked == [(0, 4096), (4096, 5000), (6000, 8192), (8192, len(CONTENT))]
    assert is_whole(cache)


@pytest.mark.usefixtures("all_ranges_count")
def test_kept_ranges_of_a_shard_with_another_digest_are_fetched_again(store, cache):
    """Bytes between samples are not compared when they are kept."""
    keep(cache, (100, 200), content=CONTENT.swapcase())
    assert downloader(store, cache).fetch(delivery(store))
    assert store.asked == [(0, 100), (200, len(CONTENT)), (0, len(CONTENT))]
    assert is_whole(cache)


def test_a_shard_that_comes_damaged_is_fetched_three_times_in_all(store, cache):
    store.blobs["a.tar"] = CONTENT.swapcase()
    with pytest.raises(IntegrityError, match=r"a\.tar: SHA-256 .*headrace verify.*\(downloaded 3 times"):
        downloader(store, cache).fetch(delivery(store))
    assert len(store.asked) == 3
    assert cache.usage_bytes() == 0


@pytest.mark.parametrize("source", ["a.tar", "a.tar.gz"])
@pytest.mark.parametrize("is_digest_known", [True, False])
def test_one_damaged_download_is_fetched_again(store, cache, source, is_digest_known):
    """Without a digest of the shard, the checksums of its samples' fields show it."""
    store.damage = lambda blob: blob[:30] + bytes([blob[30] ^ 4]) + blob[31:]
    of_fields = build_index(
        [SampleEntry("k", {"json": (0, 900), "flac": (900, len(CONTENT))}, crc32=checksums((0, 900), (900, 10240)))],
        shard="a.tar",
        num_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest() if is_digest_known else "",
    )
    wanted = dataclasses.replace(delivery(store, source), index=of_fields)
    assert downloader(store, cache).fetch(wanted)
    assert is_whole(cache)
    assert len(store.asked) == 2


def test_one_damaged_download_beside_the_cache_is_fetched_again(store, cache):
    store.damage = lambda blob: blob[:30] + bytes([blob[30] ^ 4]) + blob[31:]
    apart = downloader(store, cache).fetch_unnamed(delivery(store, "a.tar.gz"))
    assert bytes(apart.read(0, len(CONTENT))) == CONTENT
    assert len(store.asked) == 2


def checksums(json, flac):
    return {"json": zlib.crc32(CONTENT[slice(*json)]), "flac": zlib.crc32(CONTENT[slice(*flac)])}


def test_waiting_for_a_process_that_writes_nothing_ends(store, cache, clock):
    with contextlib.suppress(RuntimeError), cache.receive("a.tar", len(CONTENT)):
        with pytest.raises(CacheFullError, match=r"downloads a\.tar, but has written nothing for 7 s"):
            downloader(store, cache, download_timeout_seconds=7).fetch(delivery(store, "a.tar.gz"))
        raise RuntimeError  # it gives up in the end
    assert 7 <= clock.now < 8
    assert not store.asked


@pytest.mark.medium
def test_a_slow_download_of_another_process_is_waited_for(store, cache, clock):
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
        assert not downloader(store, cache, download_timeout_seconds=7).fetch(delivery(store, "a.tar.gz"))
    assert is_whole(cache)
    assert not store.asked


def test_what_another_one_gave_up_is_fetched(store, cache, clock):
    bringing = contextlib.ExitStack()
    bringing.enter_context(contextlib.suppress(RuntimeError))
    bringing.enter_context(cache.receive("a.tar", len(CONTENT)))
    clock.then = lambda: bringing.__exit__(RuntimeError, RuntimeError(), None)
    assert downloader(store, cache, download_retry=1).fetch(delivery(store, "a.tar.gz"))
    assert is_whole(cache)


@pytest.mark.parametrize("room", [0, 100, 10**6])
def test_a_cache_without_room_for_the_compressed_form_keeps_the_shard_alone(store, cache, room):
    cache.limit_bytes = len(CONTENT) + room
    downloader(store, cache, keep_zip=True).fetch(delivery(store, "a.tar.gz"))
    assert is_whole(cache)
    assert (cache.folder / "a.tar.gz").exists() == (room == 10**6)
    assert len(store.asked) == 1


def test_a_disk_that_fails_at_the_compressed_form_keeps_the_shard_alone(store, cache, monkeypatch):
    monkeypatch.setattr(download, "pieces", partial(download.pieces, max_bytes=100))
    receive = cache.receive

    @contextlib.contextmanager
    def receive_little(name, *more):
        with receive(name, *more) as incoming:
            yield Little(incoming.file_descriptor) if name == "a.tar.gz" else incoming

    monkeypatch.setattr(cache, "receive", receive_little)
    downloader(store, cache, keep_zip=True).fetch(delivery(store, "a.tar.gz"))
    assert is_whole(cache)
    assert not (cache.folder / "a.tar.gz").exists()


class Little(download.Incoming):
    """A file that takes one piece."""

    __slots__ = ()

    def write(self, data):
        if os.lseek(self.file_descriptor, 0, os.SEEK_CUR):
            raise download.CacheUnusableError("the disk is full after all")
        super().write(data)


@pytest.mark.medium
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


def test_an_error_that_is_dropped_is_gone_at_once(store):
    """With whatever the frames of its traceback hold: batches, and open files."""

    def use(fail):
        with contextlib.suppress(IntegrityError):
            refetch.until_sound(lambda _: fail(), store, "a shard")

    assert alive_after(IntegrityError, use) == (4, 0)
