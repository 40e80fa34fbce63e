"""The memory that a thread encodes to is used again: nothing of an earlier stream may come through."""

import contextlib
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio.memory_file import memory_file
from headrace.audio.writer import StreamForm, write_stream

LENGTHS = st.lists(st.integers(1, 9_000), min_size=2, max_size=6)


def on_new_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def stream(length, opus_bitrate):
    pcm = np.random.default_rng(length).integers(-9_000, 9_000, (length, 1), np.int16)
    halves = pcm[: length // 2], pcm[length // 2 :]
    return write_stream([half for half in halves if len(half)], length, StreamForm(48_000, 1, 16, 5, opus_bitrate))


@settings(max_examples=25)
@given(lengths=LENGTHS, opus_bitrate=st.sampled_from([None, 64_000]))
def test_a_stream_does_not_depend_on_the_streams_before_it(lengths, opus_bitrate):
    found = on_new_thread(lambda: [stream(length, opus_bitrate) for length in lengths])
    assert found == [on_new_thread(lambda n=length: stream(n, opus_bitrate)) for length in lengths]
    assert [len(payload) for payload, _ in found] == [num_bytes for _, num_bytes in found]


def test_a_stream_that_failed_leaves_nothing():
    def after_a_failure():
        with pytest.raises(ZeroDivisionError):
            write_stream(
                (1 // 0 if n else np.ones((9_000, 1), np.int16) for n in range(2)), 2, StreamForm(8_000, 1, 16, 5)
            )
        return stream(5, None)

    assert on_new_thread(after_a_failure) == on_new_thread(lambda: stream(5, None))


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
