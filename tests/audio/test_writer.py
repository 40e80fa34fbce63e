"""Tests of `headrace.audio.writer`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio.writer import StreamForm, write_stream
from tests.support.memory_file import on_new_thread

LENGTHS = st.lists(st.integers(1, 9_000), min_size=2, max_size=6)


def stream(length, opus_bitrate):
    pcm = np.random.default_rng(length).integers(-9_000, 9_000, (length, 1), np.int16)
    halves = pcm[: length // 2], pcm[length // 2 :]
    return write_stream([half for half in halves if len(half)], length, StreamForm(48_000, 1, 16, 5, opus_bitrate))


@pytest.mark.medium
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
