"""A file is as long as its header says: shorter is truncated, longer is a header that was not updated."""

import io
import struct

import pytest

from headrace.audio.forms import AudioReject
from headrace.audio.headers import IFF, check_closed, check_whole, chunks, is_open
from headrace.errors import AudioError
from tests.support.sounds import file_of, music

WHOLE = ["WAV", "AIFF", "W64", "CAF", "AU", "RF64", "AVR", "NIST", "MAT4", "SVX"]


def refusal(data, check=check_whole):
    with pytest.raises(AudioError) as error:
        check(io.BytesIO(data), len(data))
    return error.value


@pytest.mark.parametrize("container", WHOLE)
def test_a_whole_file_passes_and_one_that_lacks_audio_is_truncated(container):
    data = file_of(music(1000), container, "PCM_16")
    check_whole(io.BytesIO(data), len(data))
    cut = refusal(data[: len(data) // 2])
    assert cut.reason == AudioReject.TRUNCATED
    assert f"the file has {len(data) // 2}" in str(cut)


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF"])
def test_audio_behind_the_length_in_the_header_is_an_error(container):
    longer = refusal(file_of(music(1000), container, "PCM_16") + b"\1\2\3\4" * 2000)
    assert longer.reason == AudioReject.UNDECODABLE
    assert "perhaps the header was not updated" in str(longer)


@pytest.mark.parametrize("rest", [b"TAG" + bytes(125), bytes(4096), b"LIST\4\0\0\0abcd"], ids=["tag", "zeros", "chunk"])
def test_tags_padding_and_chunks_may_follow_the_audio(rest):
    data = file_of(music(1000)) + rest
    check_whole(io.BytesIO(data), len(data))


def test_a_length_of_zero_is_open_until_the_recording_was_closed():
    data = bytearray(file_of(music(1000)))
    at = data.index(b"data") + 4
    data[at : at + 4] = bytes(4)
    data[at + 4 : at + 12] = b"\1\2\3\4\5\6\7\x08"  # audio that is no chunk
    check_whole(io.BytesIO(data), len(data))
    assert refusal(bytes(data), check_closed).reason == AudioReject.UNDECODABLE


def test_a_coding_that_is_not_read_is_named():
    data = bytearray(file_of(music(10)))
    at = data.index(b"fmt ") + 8
    data[at : at + 2] = struct.pack("<H", 0x55)
    assert "WAV with the coding 0x0055" in str(refusal(bytes(data)))


def test_lengths_that_streaming_writers_leave_are_open():
    assert all(map(is_open, [0, 2**31, 2**32 - 1, 2**31 - 36, 2**64 - 1]))
    assert not any(map(is_open, [1, 2**31 + 1, 2**31 - (1 << 17)]))


def test_chunks_begin_at_even_bytes():
    data = b"FORM\0\0\0\0AIFF" + b"odd \0\0\0\3abc\0" + b"next\0\0\0\1x"
    assert list(chunks(io.BytesIO(data), len(data), IFF)) == [(b"odd ", 20, 3), (b"next", 32, 1)]
