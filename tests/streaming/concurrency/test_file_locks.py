"""Locks on files of the cache: who holds one, and how it ends."""

import errno
import fcntl
import os

import pytest

from headrace.streaming.concurrency import file_locks
from headrace.streaming.concurrency.file_locks import is_at, is_held, lock, lock_soon, release

NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


@pytest.fixture
def path(tmp_path):
    (tmp_path / "shard").write_bytes(b"x")
    return tmp_path / "shard"


def opened(path):
    return os.open(path, os.O_RDONLY)


def test_a_lock_is_held_until_it_is_released(path):
    first, second = opened(path), opened(path)
    assert not is_held(path)
    assert lock(first, NOW)
    assert is_held(path)
    assert not lock(second, NOW)
    release(first)
    assert not is_held(path)
    assert lock_soon(second)
    release(second)


def test_a_release_holds_for_a_forked_child_with_the_same_file(path):
    first = opened(path)
    assert lock(first, NOW)
    copy = os.dup(first)  # the same open file, as a child has it
    release(first)
    assert not is_held(path)
    os.close(copy)


def test_a_lock_that_stays_taken_is_tried_five_times(path, monkeypatch):
    pauses = []
    monkeypatch.setattr(file_locks.time, "sleep", pauses.append)
    first, second = opened(path), opened(path)
    assert lock(first, NOW)
    assert not lock_soon(second)
    assert pauses == [0.002] * 5
    release(first)
    release(second)


@pytest.mark.parametrize("without_locks", [True, False])
def test_a_file_system_without_locks_is_as_the_caller_says(path, monkeypatch, without_locks):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "no locks")

    descriptor = opened(path)
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        assert lock(descriptor, NOW, without_locks=without_locks) == without_locks
    release(descriptor)


def test_an_open_file_is_at_its_path_until_another_takes_its_name(path):
    descriptor = opened(path)
    assert is_at(descriptor, path)
    (path.parent / "new").write_bytes(b"y")
    (path.parent / "new").replace(path)
    assert not is_at(descriptor, path)
    path.unlink()
    assert not is_at(descriptor, path)
    assert not is_held(path)
    release(descriptor)
