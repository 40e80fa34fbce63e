"""The memory that a thread encodes to is used again: nothing of an earlier stream may come through."""

import contextlib
import os

from headrace.audio.memory_file import memory_file
from tests.support.memory_file import on_new_thread


def test_a_file_is_used_again_but_not_by_an_inner_block():
    with memory_file() as outer:
        os.write(outer, b"older")
        inode = os.fstat(outer).st_ino
        with memory_file() as inner:
            assert inner != outer
            assert os.fstat(inner).st_size == 0
    with memory_file() as again:
        assert os.fstat(again).st_ino == inode
        assert os.lseek(again, 0, os.SEEK_CUR) == 0


def test_a_large_file_is_not_kept():
    with memory_file() as descriptor:
        os.ftruncate(descriptor, 9 << 20)
    assert os.fstat(descriptor).st_size == 0


def test_a_file_is_closed_when_its_thread_ends():
    def used():
        with memory_file() as descriptor:
            return descriptor, os.fstat(descriptor).st_ino

    descriptor, inode = on_new_thread(used)
    with contextlib.suppress(OSError):  # closed, or by now of another file
        assert os.fstat(descriptor).st_ino != inode


def test_a_forked_process_has_its_own_file():
    with memory_file() as descriptor:
        inode = os.fstat(descriptor).st_ino
    if (child := os.fork()) == 0:
        with memory_file() as descriptor:
            os._exit(os.fstat(descriptor).st_ino == inode)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
