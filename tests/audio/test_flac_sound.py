"""FLAC at the input: what its header promises is compared with what is there."""

import io
import random

import numpy as np
import pytest
import soundfile as sf

from headrace.audio import AudioFormat, AudioReject, Segment, encode_segments, flac_info, plan_segments, prove
from headrace.errors import AudioError
from tests.support.sounds import encoded, file_of, integers, music, pcm_of, probed

SUBTYPES = ["PCM_S8", "PCM_16", "PCM_24"]
WHOLE = [
    AudioFormat(),
    AudioFormat(bits_per_sample=24),
    AudioFormat(num_channels=1),
    AudioFormat(sample_rate_hz=16_000),
]
"""Copied; encoded from integers; read as float64; resampled in float32."""


def flac_of(num_frames=9_000, num_channels=2, subtype="PCM_16", seed=0):
    return file_of(music(num_frames, num_channels, seed=seed), "FLAC", subtype)


def with_md5(data, md5):
    return data[:26] + md5 + data[42:]


def promising(data, num_frames):
    """Another number of frames in STREAMINFO."""
    packed = int.from_bytes(data[18:26], "big") >> 36 << 36 | num_frames
    return data[:18] + packed.to_bytes(8, "big") + data[26:]


def refusal_of(data, wanted=None):
    with pytest.raises(AudioError) as refusal:
        encoded(data, wanted)
    return refusal.value


@pytest.mark.parametrize("wanted", WHOLE)
@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_wrong_md5_is_refused(subtype, wanted):
    data = flac_of(subtype=subtype)
    encoded(data, wanted)
    error = refusal_of(with_md5(data, bytes(range(16))), wanted)
    assert error.reason == AudioReject.UNDECODABLE
    assert "MD5" in str(error)


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_stream_without_md5_passes(subtype):
    data = flac_of(subtype=subtype)
    assert pcm_of(encoded(with_md5(data, bytes(16)))[0]).shape == (9_000, 2)


@pytest.mark.parametrize("md5_is_kept", [True, False])
@pytest.mark.parametrize("wanted", WHOLE)
def test_more_or_fewer_frames_than_promised_are_refused(wanted, md5_is_kept):
    data = flac_of()
    data = data if md5_is_kept else with_md5(data, bytes(16))
    assert refusal_of(promising(data, 5_000), wanted).reason == AudioReject.UNDECODABLE
    assert refusal_of(promising(data, 10_000), wanted).reason == AudioReject.TRUNCATED
    assert refusal_of(data[: len(data) // 2], wanted).reason == AudioReject.TRUNCATED


def test_segments_that_cover_a_recording_prove_it():
    data = with_md5(flac_of(), bytes(range(16)))
    assert refusal_of(data, AudioFormat(segment_seconds=0.02)).reason == AudioReject.UNDECODABLE


def test_some_segments_prove_nothing_and_prove_does():
    data = with_md5(flac_of(), bytes(range(16)))
    info = probed(data)
    segments = plan_segments(info.num_frames, info.sample_rate_hz, AudioFormat(segment_seconds=0.02))
    assert len(list(encode_segments(io.BytesIO(data), info, AudioFormat(), segments[1:]))) == len(segments) - 1
    with pytest.raises(AudioError, match="MD5"):
        prove(io.BytesIO(data), info)
    prove(io.BytesIO(flac_of()), info)
    prove(io.BytesIO(b"no FLAC"), probed(file_of(music(100))))


@pytest.mark.medium
@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_flipped_bit_is_refused_or_changes_no_sample(subtype):
    data = flac_of(3_000, 1, subtype)
    want, rate = sf.read(io.BytesIO(data), dtype="int32", always_2d=True)
    rng = random.Random(3)
    places = [*range(42 * 8), *(rng.randrange(len(data) * 8) for _ in range(200))]  # all of the header, and any
    accepted = 0
    for place in places:
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        try:
            (segment,) = encoded(bytes(damaged))
        except AudioError:
            continue
        np.testing.assert_array_equal(pcm_of(segment), want)
        assert segment.sample_rate_hz == rate
        accepted += 1
    assert accepted < len(places) / 3  # sizes that only advise, tags


@pytest.mark.parametrize("subtype", SUBTYPES)
@pytest.mark.parametrize("dtype", ["int16", "int32", "float32", "float64"])
def test_samples_are_those_of_libsndfile(subtype, dtype):
    from headrace.audio.flac_sound import open_flac

    if (dtype == "int16") == (subtype == "PCM_24"):
        return
    bits = {"PCM_S8": 8, "PCM_16": 16, "PCM_24": 24}[subtype]
    data = file_of(integers(20_000, 2, bits), "FLAC", subtype)
    want = sf.read(io.BytesIO(data), dtype=dtype, always_2d=True)[0]
    with open_flac(io.BytesIO(data), probed(data)) as sound:
        blocks = [sound.read(7_001, dtype) for _ in range(3)]
    np.testing.assert_array_equal(np.concatenate(blocks), want)


def test_flac_behind_a_tag_is_proved_too():
    tag = b"ID3\x04\0\0\0\0\x0f\x00" + bytes(15 * 128)
    data = flac_of()
    assert pcm_of(encoded(tag + data)[0]).shape == (9_000, 2)
    assert "MD5" in str(refusal_of(tag + with_md5(data, bytes(range(16)))))


def test_the_position_of_a_plain_file_is_kept(tmp_path):
    data = flac_of()
    path = tmp_path / "a.flac"
    path.write_bytes(data)
    info = probed(data)
    with path.open("rb") as file:
        file.read(10)
        (segment,) = encode_segments(file, info, AudioFormat(num_channels=1), [Segment(0, 0, 9_000)])
        assert flac_info(segment.payload).num_frames == 9_000
        assert file.tell() == 10
        assert file.read() == data[10:]
