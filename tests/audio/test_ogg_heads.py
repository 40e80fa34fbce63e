"""The first packet of an Ogg stream says what it holds; a rate that Opus does not have becomes 48 kHz."""

import io

import pytest

from headrace.audio.ogg import changed_page, ogg_links, page_at
from headrace.audio.ogg_heads import num_speakers, parts_of
from headrace.audio.parts import part_file
from headrace.errors import AudioError
from tests.support.sounds import file_of, music, probed

OPUS = file_of(music(4800, 2, 48_000), "OGG", "OPUS", 48_000)
VORBIS = file_of(music(4800, 2), "OGG", "VORBIS")


def parts(data):
    file = io.BytesIO(data)
    return parts_of(file, ogg_links(file, len(data)))


def with_packet(data, offset, content):
    """The file with other bytes in its first packet, and the right checksum."""
    page, at = page_at(io.BytesIO(data), 0)
    return changed_page(page, at + offset, content) + data[len(page) :]


@pytest.mark.parametrize("data", [OPUS, VORBIS], ids=["Opus", "Vorbis"])
def test_one_stream_is_read_whole_and_two_as_parts(data):
    assert parts(data) == []
    assert [part.spans for part in parts(data * 2)] == [((0, len(data)),), ((len(data), 2 * len(data)),)]
    assert num_speakers(io.BytesIO(data)) == (0 if data is OPUS else 2)


@pytest.mark.parametrize("rate_hz", [0, 44_100_000, 22_050])
def test_a_rate_that_opus_does_not_have_becomes_48_khz(rate_hz):
    data = with_packet(OPUS, 12, rate_hz.to_bytes(4, "little"))
    (part,) = parts(data)
    with part_file(io.BytesIO(data), part) as file:
        assert probed(file.read()).sample_rate_hz == 48_000


@pytest.mark.parametrize("rate_hz", [16_000, 44_100, 48_000])
def test_a_rate_that_libsndfile_takes_right_stays(rate_hz):
    assert parts(with_packet(OPUS, 12, rate_hz.to_bytes(4, "little"))) == []


@pytest.mark.parametrize(
    ("mark", "name"), [(b"\x7fFLAC", "Ogg FLAC"), (b"Speex", "Ogg Speex"), (b"fishead", "Ogg with a skeleton")]
)
def test_another_coding_is_rejected_by_name(mark, name):
    with pytest.raises(AudioError, match=name):
        parts(with_packet(OPUS, 0, mark))
