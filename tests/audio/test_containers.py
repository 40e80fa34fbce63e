"""Forms are recognized by their first bytes; each form that is not read is rejected by name, with what to do."""

import io

import pytest

from headrace.audio.containers import Form, form_of
from headrace.audio.forms import AudioReject
from headrace.errors import AudioError

ID3 = b"ID3\4\0\0\0\0\0\4xxxx"


def of(data):
    return form_of(io.BytesIO(data), len(data))


@pytest.mark.parametrize("front", [b"", ID3, ID3 + ID3], ids=["no tag", "a tag", "two tags"])
@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b"RIFF....WAVEfmt ", Form.OTHER),
        (b"RF64....WAVEds64", Form.OTHER),
        (b"FORM....AIFFCOMM", Form.OTHER),
        (b"fLaC\0\0\0\x22", Form.OTHER),
        (b"OggS\0\2", Form.OGG),
        (b"\xff\xfb\x90\x64", Form.MPEG),
        (b"....ftypM4A ", Form.MP4),
        (b"\x1a\x45\xdf\xa3", Form.MATROSKA),
        (bytes.fromhex("3026b2758e66cf11"), Form.ASF),
    ],
)
def test_a_form_is_found_behind_any_tags(front, head, form):
    assert of(front + head.ljust(64, b"\0")) is form


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (b"fap ....", "Ensoniq PARIS (PAF); a truncated file of this form looks whole; decode it to FLAC or WAV first"),
        (b"RIFF....WEBP", "a picture; keep it out of the source"),
        (b"RIFF....abcd", "a RIFF or IFF file without audio"),
        (b"BW64....WAVE", "Broadcast Wave 64 (BW64)"),
        (b"version https://git-lfs.github.com", "a pointer of git-lfs; the recording itself has to be downloaded"),
        (b"\n <!DOCTYPE html>", "an HTML page"),
        (b'{"error": 1}', "JSON"),
        (b"PK\3\4", "a zip archive; unpack it"),
        (b"x" * 257 + b"ustar", "a tar; unpack it"),
        (b"hello world", "a file that begins with b'hello wo'; if it is audio"),
    ],
)
def test_a_form_that_is_not_read_is_rejected_by_name_with_the_way_out(head, named):
    with pytest.raises(AudioError) as error:
        of(head)
    assert error.value.reason == AudioReject.UNSUPPORTED
    assert str(error.value).startswith(f"not a form of audio that is read: {named}")


def test_an_htk_waveform_is_recognized_by_the_length_in_its_header():
    htk = (8).to_bytes(4, "big") + bytes(4) + b"\0\2\0\0" + bytes(16)
    assert of(htk) is Form.OTHER
    with pytest.raises(AudioError, match="a file that begins with"):
        of(htk + b"\0")
