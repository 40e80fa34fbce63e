"""One process makes a file while others wait, but not for ever."""

import fcntl
import multiprocessing
import signal
import threading
from concurrent.futures import CancelledError

import pytest

from headrace.stores.waiting import waits_end_with
from headrace.streaming.concurrency import host_lock
from headrace.streaming.concurrency.host_lock import locked_for_a_while


def test_one_makes_while_others_wait_and_no_lock_is_left(tmp_path):
    made, path = [], tmp_path / "folder/lock"

    def make():
        with locked_for_a_while(path, 60):
            if not made:
                assert path.exists()
                made.append(threading.current_thread())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert not path.exists()


def test_a_process_that_hangs_is_not_waited_for_for_ever(tmp_path):
    with locked_for_a_while(tmp_path / "lock", 60), locked_for_a_while(tmp_path / "lock", 0.02):
        pass


def test_a_wait_ends_with_its_loader(tmp_path):
    is_over = threading.Event()
    is_over.set()
    with locked_for_a_while(tmp_path / "lock", 60), waits_end_with(is_over):
        with pytest.raises(CancelledError), locked_for_a_while(tmp_path / "lock", 60):
            pytest.fail("the lock is held")
        assert (tmp_path / "lock").exists()


def test_a_child_that_was_forked_meanwhile_does_not_hold_the_lock(tmp_path):
    child = multiprocessing.get_context("fork").Process(target=signal.pause)
    with locked_for_a_while(tmp_path / "lock", 60):
        child.start()
        waiting = (tmp_path / "lock").open()
    with waiting:
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    child.kill()
    child.join()


@pytest.mark.parametrize("call", ["open", "flock"])
def test_without_locks_all_make(tmp_path, monkeypatch, call):
    def fail(*args, **options):
        raise OSError("no locks here")

    monkeypatch.setattr(host_lock.os if call == "open" else host_lock.fcntl, call, fail)
    with locked_for_a_while(tmp_path / "lock", 60), locked_for_a_while(tmp_path / "lock", 60):
        monkeypatch.undo()
