"""Checks the results of probing recordings, whole and broken."""

import contextlib
import gzip
import io
import struct
from functools import partial

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio import AudioInfo, AudioReject, decode, probe
from headrace.errors import AudioError
from tests.support.sounds import FORMATS, file_of, music, probed, rate_of

ANNOUNCED = ["WAV", "WAVEX", "AIFF", "AU", "CAF", "W64", "RF64", "OGG"]
"""Containers that say how long they should be."""


def reason_of(data):
    with pytest.raises(AudioError) as refusal:
        probed(data)
    return refusal.value.reason


@pytest.mark.parametrize(("container", "subtype"), FORMATS)
def test_the_header_is_read_from_content(container, subtype):
    rate = rate_of(subtype)
    info = probed(file_of(music(rate, 2, rate), container, subtype, rate))
    assert (info.container, info.subtype) == (container, subtype)
    assert (info.sample_rate_hz, info.num_channels) == (rate, 2)
    assert info.num_frames == pytest.approx(rate, abs=2_000 if subtype == "IMA_ADPCM" else 0)


@pytest.mark.parametrize(
    ("subtype", "bits"), [("PCM_U8", 8), ("PCM_16", 16), ("PCM_24", 24), ("FLOAT", 32), ("DOUBLE", 64), ("ULAW", None)]
)
def test_bits_are_those_of_linear_samples(subtype, bits):
    assert probed(file_of(music(100), "WAV", subtype)).bits_per_sample == bits


@pytest.mark.parametrize("opener", [open, partial(open, buffering=0), gzip.open])
def test_any_seekable_file_will_do_and_keeps_its_position(tmp_path, opener):
    path = tmp_path / "a name that lies.raw"
    content = file_of(music(5_000))
    path.write_bytes(gzip.compress(content) if opener is gzip.open else content)
    with opener(path, "rb") as file:
        file.seek(10)
        assert probe(file, num_bytes=len(content)) == AudioInfo("WAV", "PCM_16", 5_000, 44_100, 1, 16)
        assert file.tell() == 10
        assert file.read(6) == content[10:16]


def test_nothing_is_empty_and_text_is_unsupported():
    assert reason_of(b"") == AudioReject.EMPTY
    assert reason_of(b"\x89PNG\r\n" + bytes(500)) == AudioReject.UNSUPPORTED
    assert reason_of(b"title: a song\n" * 100) == AudioReject.UNSUPPORTED


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF", "AU", "W64"])
def test_a_header_alone_has_no_frames(container):
    assert reason_of(file_of(np.zeros((0, 1)), container)) == AudioReject.NO_FRAMES


@pytest.mark.parametrize(("container", "subtype"), [pair for pair in FORMATS if pair[0] in ANNOUNCED])
def test_a_cut_file_is_truncated_by_its_own_header(container, subtype):
    rate = rate_of(subtype)
    data = file_of(music(rate // 2, 1, rate), container, subtype, rate)
    for cut in (len(data) // 2, len(data) - 20):
        assert reason_of(data[:cut]) == AudioReject.TRUNCATED


@pytest.mark.parametrize(("riff", "size"), [(8, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x7FFFF024, 0x7FFFF000)])
def test_a_wav_that_was_streamed_leaves_its_size_open(riff, size):
    data = bytearray(file_of(music(5_000)))
    data[4:8], data[40:44] = struct.pack("<I", riff), struct.pack("<I", size)
    assert probed(bytes(data)).num_frames == 5_000


def test_bytes_behind_the_audio_are_no_fault():
    assert probed(file_of(music(5_000)) + b"LIST\x04\0\0\0abcd" + bytes(9)).num_frames == 5_000


DATA_STARTS = {"WAV": (b"data", 8), "RF64": (b"data", 8), "AIFF": (b"SSND", 16), "CAF": (b"data", 16), "AU": (b"", 24)}


@pytest.mark.parametrize(("container", "subtype"), [pair for pair in FORMATS if pair[0] in DATA_STARTS])
def test_audio_behind_what_the_header_promises_is_reported(container, subtype):
    mark, size = DATA_STARTS[container]
    whole, part = (file_of(music(n), container, subtype) for n in (30_000, 5_000))
    starts = [data.index(mark) + size for data in (whole, part)]
    error = reason_of(part[: starts[1]] + whole[starts[0] :])
    assert error == AudioReject.UNDECODABLE


@pytest.mark.parametrize("container", ["WAV", "AIFF", "CAF"])
def test_large_chunks_behind_the_audio_are_no_fault_and_cut_ones_are(container):
    size = (20_000).to_bytes({"CAF": 8}.get(container, 4), "little" if container == "WAV" else "big")
    data = file_of(music(5_000), container) + b"JUNK" + size + bytes(range(250)) * 80
    assert probed(data).num_frames == 5_000
    assert reason_of(data[:-1_000]) == AudioReject.TRUNCATED


def test_a_cut_mp3_is_recognised_by_its_xing_frame():
    data = file_of(music(44_100), "MP3", "MPEG_LAYER_III")
    assert b"Xing" in data[:200] or b"Info" in data[:200]
    assert reason_of(data[: len(data) // 2]) == AudioReject.TRUNCATED
    tagged = b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + data
    assert probed(tagged).num_frames == 44_100


def test_a_flac_of_unknown_length_is_counted():
    data = bytearray(file_of(music(70_000), "FLAC"))
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    assert probed(bytes(data)).num_frames == 70_000


@given(st.sampled_from(FORMATS), st.data())
@settings(max_examples=60)
def test_noise_in_a_header_never_raises_anything_but_audio_errors(form, data):
    blob = bytearray(file_of(music(4_800, 1, rate_of(form[1])), *form, rate_of(form[1])))
    at = data.draw(st.integers(0, 100))
    noise = data.draw(st.binary(min_size=1, max_size=8))
    blob[at : at + len(noise)] = noise
    with contextlib.suppress(AudioError):
        assert probed(bytes(blob)).num_frames > 0


@pytest.mark.parametrize(("container", "subtype"), FORMATS)
def test_decoding_equals_libsndfile(container, subtype):
    rate = rate_of(subtype)
    data = file_of(music(rate * 2, 2, rate), container, subtype, rate)
    samples, found = decode(data)
    want, _ = sf.read(io.BytesIO(data), dtype="float32", always_2d=True)
    assert found == rate
    assert samples.dtype == np.float32
    assert samples.flags.c_contiguous
    np.testing.assert_array_equal(samples, want.T)


def test_decoding_refuses_what_is_not_finite():
    samples = music(1_000)
    samples[700] = np.nan
    with pytest.raises(AudioError, match="frame 700") as refusal:
        decode(file_of(samples, "WAV", "FLOAT"))
    assert refusal.value.reason == AudioReject.NON_FINITE
