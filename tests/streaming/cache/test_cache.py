"""The cache folder: what goes in comes out whole or not at all, under its limit, among processes that may die."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import signal
import threading
from pathlib import Path

import pytest

from headrace.errors import IntegrityError
from headrace.streaming.cache.cache import CacheFullError, CacheUnusableError, ShardCache


def put(cache: ShardCache, name: str, content: bytes) -> None:
    with cache.receive(name, len(content)) as incoming:
        assert incoming is not None
        incoming.write(content)


def test_what_goes_in_comes_out(tmp_path):
    cache = ShardCache(tmp_path)
    put(cache, "a.tar", b"hello")
    found = cache.find("a.tar", 5)
    assert found is not None
    assert bytes(found.read(1, 4)) == b"ell"


def test_a_shard_that_fails_on_its_way_in_leaves_nothing(tmp_path):
    cache = ShardCache(tmp_path)
    with contextlib.suppress(RuntimeError), cache.receive("a.tar", 5) as incoming:
        incoming.write(b"he")
        raise RuntimeError
    assert cache.find("a.tar", 5) is None
    assert cache.usage_bytes() == 0


def test_a_shard_shorter_than_expected_is_not_kept(tmp_path):
    cache = ShardCache(tmp_path)
    with pytest.raises(IntegrityError, match="5 bytes expected, 2 received"), cache.receive("a.tar", 5) as incoming:
        incoming.write(b"he")
    assert cache.find("a.tar", 5) is None


@pytest.mark.parametrize("damaged", [b"", b"hell", b"hello!"])
def test_a_file_of_the_wrong_size_is_never_served(tmp_path, damaged):
    cache = ShardCache(tmp_path)
    put(cache, "a.tar", b"hello")
    (tmp_path / "a.tar").write_bytes(damaged)
    assert cache.find("a.tar", 5) is None
    assert not (tmp_path / "a.tar").exists()


def test_least_recently_used_goes_first_and_the_limit_holds(tmp_path):
    cache = ShardCache(tmp_path, 250)
    for second, name in enumerate(("a.tar", "b.tar")):
        put(cache, name, bytes(100))
        os.utime(tmp_path / name, (second, second))
    assert cache.find("a.tar", 100) is not None  # used again: b is colder now
    put(cache, "c.tar", bytes(100))
    assert cache.usage_bytes() <= 250
    assert cache.find("b.tar", 100) is None
    assert cache.find("a.tar", 100) is not None


def test_a_shard_gets_its_name_while_nobody_makes_room(tmp_path, monkeypatch):
    """Who lists the folder before and looks at its files after would find neither name, and take in too much."""
    rename, seen = Path.rename, []

    def watched(path, target):
        with (tmp_path / ".lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        seen.append(target.name)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", watched)
    put(ShardCache(tmp_path, 250), "a.tar", b"hello")
    assert seen == ["a.tar"]


@pytest.mark.medium
def test_the_limit_holds_while_many_write_shards(tmp_path):
    cache, usages = ShardCache(tmp_path, 3_400), []

    def bring(first):
        for number in range(first, first + 60):
            with contextlib.suppress(CacheFullError):
                put(cache, f"{number}.tar", bytes(1_000))
            with cache._folder_lock():  # nobody takes anything in meanwhile
                usages.append(cache.usage_bytes())

    threads = [threading.Thread(target=bring, args=(first,)) for first in range(0, 360, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(usages) == 360
    assert max(usages) <= 3_400


def test_indexes_count_against_the_limit_and_the_newest_stay(tmp_path):
    cache = ShardCache(tmp_path, 250)
    put(cache, "a.tar", bytes(100))
    cache.keep_index("a.tar", bytes(20))
    for number in range(10):
        cache.keep_index(f"{number}.tar", bytes(40))
        os.utime(tmp_path / f"{number}.tar.idx", (number, number))
        assert cache.usage_bytes() <= 250
    assert [number for number in range(10) if cache.kept_index(f"{number}.tar")] == [7, 8, 9]
    assert cache.find("a.tar", 100) is not None
    assert cache.kept_index("a.tar") is not None


def test_an_index_that_finds_no_room_is_no_error(tmp_path):
    cache = ShardCache(tmp_path, 250)
    put(cache, "a.tar", bytes(240))
    reader = cache.find("a.tar", 240)
    for num_bytes in (40, 400):
        cache.keep_index("b.tar", bytes(num_bytes))
        assert cache.kept_index("b.tar") is None
    del reader
    cache.keep_index("b.tar", bytes(40))
    assert cache.kept_index("b.tar") is not None
    assert cache.usage_bytes() <= 250


def test_indexes_do_not_have_a_large_folder_looked_through_for_each(tmp_path, monkeypatch):
    cache = ShardCache(tmp_path, 1 << 20)
    looks = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scandir(folder))
    for number in range(100):
        cache.keep_index(f"{number}.tar", bytes(1000))
    assert len(looks) < 10
    assert cache.usage_bytes() == 100 * 1000


def test_indexes_without_their_shards_make_room_first(tmp_path):
    """Looking at lengths fetches indexes of shards that never come; they must not fill the cache for good."""
    cache = ShardCache(tmp_path, 250)
    put(cache, "a.tar", bytes(100))
    for name in ("a.tar", "b.tar", "c.tar"):
        cache.keep_index(name, bytes(40))
    put(cache, "d.tar", bytes(100))
    assert cache.find("a.tar", 100) is not None
    assert cache.kept_index("a.tar") is not None
    assert cache.kept_index("b.tar") is None
    assert cache.usage_bytes() <= 250
    assert cache.evict_coldest() in {"a.tar", "d.tar"}
    (tmp_path / ".a.tar.idx.4711").write_bytes(bytes(300))  # what a killed process left
    put(cache, "e.tar", bytes(100))
    assert cache.usage_bytes() <= 250


def test_what_a_reader_has_open_is_not_evicted(tmp_path):
    cache = ShardCache(tmp_path, 100)
    put(cache, "a.tar", bytes(100))
    held = cache.find("a.tar", 100)
    with pytest.raises(CacheUnusableError, match="in use"):
        put(cache, "b.tar", bytes(100))
    del held
    put(cache, "b.tar", bytes(100))
    assert cache.find("a.tar", 100) is None


def test_a_shard_larger_than_the_limit_is_rejected_by_name_of_the_setting(tmp_path):
    with pytest.raises(CacheUnusableError, match="cache_limit"):
        put(ShardCache(tmp_path, 99), "a.tar", bytes(100))


def test_only_one_process_writes_a_shard_at_a_time(tmp_path):
    cache, other = ShardCache(tmp_path), ShardCache(tmp_path)
    with cache.receive("a.tar", 2) as incoming:
        incoming.write(b"hi")
        assert other.is_arriving("a.tar")
        with other.receive("a.tar", 2) as second:
            assert second is None
    assert not other.is_arriving("a.tar")
    assert other.find("a.tar", 2) is not None


def test_a_shard_whose_writer_still_holds_its_lock_counts_as_arriving(tmp_path):
    """Between its renaming and its unlocking it can neither be opened nor is there a part of it."""
    cache = ShardCache(tmp_path)
    put(cache, "a.tar", b"hi")
    with (tmp_path / "a.tar").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert cache.find("a.tar", 2) is None
        assert cache.is_arriving("a.tar")
    assert not cache.is_arriving("a.tar")
    assert cache.find("a.tar", 2) is not None


def test_a_full_disk_is_an_error_of_the_cache(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CacheUnusableError, match="No space left"):
        put(ShardCache(tmp_path), "a.tar", b"hello")
    assert not list(tmp_path.glob("*.tar"))


def test_a_folder_that_cannot_be_made_is_an_error_of_the_cache(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CacheUnusableError, match="local="):
        put(ShardCache(tmp_path / "file"), "a.tar", b"hello")


def _bring_half_and_wait(folder, is_ready):
    with ShardCache(folder).receive("a.tar", 1000) as incoming:
        incoming.write(bytes(500))
        is_ready.set()
        signal.pause()


def test_a_process_killed_while_writing_a_shard_leaves_nothing_to_clean(tmp_path):
    """Its lock dies with it; the next one begins the shard again."""
    context = multiprocessing.get_context("fork")
    is_ready = context.Event()
    process = context.Process(target=_bring_half_and_wait, args=(tmp_path, is_ready))
    process.start()
    assert is_ready.wait(60)
    cache = ShardCache(tmp_path, 1100)
    assert cache.is_arriving("a.tar")
    assert cache.find("a.tar", 1000) is None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not cache.is_arriving("a.tar")
    put(cache, "b.tar", bytes(1000))  # the leftover does not count for ever
    assert cache.usage_bytes() == 1000
    cache.evict("b.tar")
    put(cache, "a.tar", bytes(1000))
    assert cache.find("a.tar", 1000) is not None


@pytest.fixture
def fork():
    """Forks a child that does nothing: what other libraries' workers are to a cache."""
    context, children = multiprocessing.get_context("fork"), []

    def begin():
        children.append(context.Process(target=signal.pause))
        children[-1].start()

    yield begin
    for child in children:
        child.kill()
        child.join()


def is_free(path):
    """Whether nobody has the file locked."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_shard_that_came_is_here_while_a_child_lives_that_was_forked_meanwhile(tmp_path, fork):
    """The child has the same open files, and a lock is theirs."""
    cache = ShardCache(tmp_path)
    with cache.receive("a.tar", 2) as incoming:
        incoming.write(b"hi")
        fork()
    assert cache.find("a.tar", 2) is not None
    assert not cache.is_arriving("a.tar")


def test_a_fork_while_room_is_made_leaves_the_folder_unlocked(tmp_path, fork):
    cache = ShardCache(tmp_path, 100)
    cache.usage_bytes = lambda: fork() or 0
    put(cache, "a.tar", b"hi")
    assert is_free(tmp_path / ".lock")


def test_a_fork_while_somebody_looks_whether_a_shard_arrives_leaves_it_unlocked(tmp_path, fork, monkeypatch):
    cache, lock = ShardCache(tmp_path), fcntl.flock
    part = tmp_path / ".a.tar.part"
    part.touch()

    def lock_and_fork(descriptor, how):
        lock(descriptor, how)
        fork()

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lock_and_fork)
        assert not cache.is_arriving("a.tar")
    assert is_free(part)


def test_a_shard_that_was_read_may_be_evicted_while_a_child_lives_that_was_forked_meanwhile(tmp_path, fork):
    cache = ShardCache(tmp_path)
    put(cache, "a.tar", b"hi")
    reader = cache.find("a.tar", 2)
    fork()
    assert not cache.evict("a.tar")
    del reader
    assert cache.evict("a.tar")


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.rename", "os.ftruncate"])
def test_a_disk_that_fails_is_an_error_of_the_cache(tmp_path, monkeypatch, call):
    """Over NFS a quota shows as late as there."""

    def fail(*_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(call, fail)
    with pytest.raises(CacheUnusableError, match="Disk quota exceeded: free some disk"):
        put(ShardCache(tmp_path), "a.tar", b"hi")
    assert not list(tmp_path.glob("*.tar"))
    assert not list(tmp_path.glob(".*.part"))


def test_two_who_keep_one_index_do_not_write_to_one_file(tmp_path, monkeypatch):
    """Processes of two containers may have the same number, and threads have."""
    cache, used, rename = ShardCache(tmp_path), [], Path.rename
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(Path, "rename", lambda path, target: used.append(path) or rename(path, target))
    for blob in (b"one", b"two"):
        cache.keep_index("a.tar", blob)
    assert len(set(used)) == 2
    assert cache.kept_index("a.tar") == b"two"
