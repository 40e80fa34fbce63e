"""ID3v2 tags before audio are skipped, except before MPEG audio."""

import io

import pytest

from headrace.audio.tags import behind_tag, id3_bytes, is_mpeg, tag_bytes, without_tag

TAG = b"ID3\4\0\0\0\0\0\4xxxx"  # 14 bytes
MPEG = b"\xff\xfb\x90\x64" + bytes(8)


def test_the_size_of_a_tag_counts_its_header_and_its_footer():
    assert id3_bytes(TAG) == 14
    assert id3_bytes(b"ID3\4\0\x10\0\0\1\0") == 10 + 128 + 10
    assert [id3_bytes(head) for head in (b"fLaC" + bytes(6), TAG[:9], b"ID3\4\0\0\0\0\0\x80")] == [0, 0, 0]


@pytest.mark.parametrize(("data", "start"), [(b"fLaCdata", 0), (TAG + b"fLaCdata", 14), (TAG * 2 + b"fLaC", 28)])
def test_a_file_and_bytes_begin_behind_their_tags(data, start):
    file = io.BytesIO(data)
    file.seek(3)
    assert tag_bytes(file) == start
    assert file.tell() == 3
    assert behind_tag(file).read() == (data[start:] if start else data[3:])
    assert bytes(without_tag(data)) == data[start:]


def test_the_tag_of_mpeg_audio_stays():
    assert tag_bytes(io.BytesIO(TAG + MPEG)) == 0
    assert without_tag(TAG + MPEG) == TAG + MPEG


def test_a_view_behind_a_tag_seeks_like_a_file_and_leaves_the_position_of_the_file():
    file = io.BytesIO(TAG + b"fLaC0123456789")
    view = behind_tag(file)
    view.seek(-3, io.SEEK_END)
    assert view.read() == b"789"
    view.seek(4)
    assert (view.read(2), view.tell(), file.tell()) == (b"01", 6, 0)


@pytest.mark.parametrize(
    "head",
    [b"\xff\xf9\x90\x64", b"\xff\xeb\x90\x64", b"\xff\xfb\xf0\x64", b"\xff\xfb\x9c\x64", b"\xff\xfb\x90", b"RIFF"],
    ids=["no layer", "reserved version", "bad bit rate", "bad rate", "cut", "another form"],
)
def test_what_cannot_be_the_header_of_an_mpeg_frame(head):
    assert is_mpeg(MPEG[:4])
    assert not is_mpeg(head)
