"""Encoding: what is kept bit for bit, what is rounded, what is rejected, and that nothing else changes a byte."""

import io
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio import (
    AudioFormat,
    AudioInfo,
    AudioReject,
    Segment,
    codec_version,
    encode_segments,
    flac_info,
    plan_segments,
)
from headrace.errors import AudioError
from tests.support.sounds import FORMATS, encoded, file_of, integers, music, pcm_of, probed, rate_of


def reason_of(data, wanted=None, info=None):
    wanted, info = wanted or AudioFormat(), info or probed(data)
    with pytest.raises(AudioError) as refusal:
        list(encode_segments(io.BytesIO(data), info, wanted, [Segment(0, 0, info.num_frames)]))
    return refusal.value


@pytest.mark.parametrize(("container", "subtype"), FORMATS)
def test_every_format_is_encoded_within_half_a_step(container, subtype):
    rate = rate_of(subtype)
    data = file_of(music(rate, 2, rate), container, subtype, rate)
    (segment,) = encoded(data)
    want = sf.read(io.BytesIO(data), dtype="float64", always_2d=True)[0]
    assert segment.num_frames == len(want)
    assert flac_info(segment.payload) == (len(want), rate, 2, segment.bits_per_sample)
    assert np.abs(pcm_of(segment) / 2**31 - want).max() <= 0.5 / 2 ** (segment.bits_per_sample - 1)


@pytest.mark.parametrize(
    ("container", "subtype", "bits"),
    [
        ("WAV", "PCM_U8", 16),
        ("WAV", "PCM_16", 16),
        ("WAV", "PCM_24", 24),
        ("WAV", "PCM_32", 24),
        ("WAV", "FLOAT", 24),
        ("WAV", "DOUBLE", 24),
        ("CAF", "ALAC_24", 24),
        ("WAV", "ULAW", 16),
        ("OGG", "VORBIS", 16),
    ],
)
def test_null_bits_keep_the_sources_where_flac_can(container, subtype, bits):
    assert encoded(file_of(music(9_000), container, subtype))[0].bits_per_sample == bits


@given(
    st.integers(1, 10_000),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([16, 24]),
    st.sampled_from(["WAV", "AIFF", "W64"]),
)
@settings(max_examples=25)
def test_integers_are_kept_bit_for_bit(num_frames, num_channels, bits, container):
    samples = integers(num_frames, num_channels, bits)
    (segment,) = encoded(file_of(samples, container, f"PCM_{bits}"))
    np.testing.assert_array_equal(pcm_of(segment), samples)


@pytest.mark.parametrize(
    ("subtype", "bits"), [("PCM_24", 16), ("PCM_32", 16), ("PCM_32", 24), ("FLOAT", 16), ("DOUBLE", 24)]
)
def test_wider_samples_are_rounded_to_the_nearest_step_and_clipped(subtype, bits):
    samples = integers(5_000, 1, 32) / 2**31
    data = file_of(samples, "WAV", subtype)
    stored = sf.read(io.BytesIO(data), dtype="float64", always_2d=True)[0]
    (segment,) = encoded(data, AudioFormat(bits_per_sample=bits))
    steps = pcm_of(segment) / 2.0 ** (32 - bits)
    want = np.clip(stored * 2 ** (bits - 1), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    assert np.abs(steps - want).max() <= 0.5


def test_floats_beyond_full_scale_are_clipped():
    (segment,) = encoded(
        file_of(np.array([[1.5], [-1.5], [1.0], [-1.0]]), "WAV", "FLOAT"), AudioFormat(bits_per_sample=16)
    )
    assert (pcm_of(segment).ravel() >> 16).tolist() == [32_767, -32_768, 32_767, -32_768]


def test_one_channel_is_the_mean_of_all():
    samples = integers(3_000, 3, 16)
    (segment,) = encoded(file_of(samples), AudioFormat(num_channels=1))
    means = (samples.astype(np.int64) >> 16).sum(axis=1) / 3
    assert np.abs((pcm_of(segment)[:, 0] >> 16) - means).max() <= 0.5


def test_one_channel_is_repeated():
    samples = integers(3_000, 1, 24)
    (segment,) = encoded(file_of(samples, "WAV", "PCM_24"), AudioFormat(num_channels=2))
    np.testing.assert_array_equal(pcm_of(segment), np.repeat(samples, 2, axis=1))


@pytest.mark.parametrize(
    "rates", [(44_100, 16_000), (16_000, 44_100), (48_000, 44_100), (44_100, 24_000), (96_000, 8_000)]
)
@pytest.mark.parametrize("bits", [16, 24])
def test_resampled_segments_meet_without_a_seam(rates, bits):
    source, rate = rates
    data = file_of(music(source * 3 + 17, 2, source), "WAV", "PCM_24", source)
    (whole,) = encoded(data, AudioFormat(sample_rate_hz=rate, bits_per_sample=bits))
    parts = encoded(data, AudioFormat(sample_rate_hz=rate, bits_per_sample=bits, segment_seconds=0.7))
    joined = np.concatenate([pcm_of(part) for part in parts])
    steps = (joined.astype(np.int64) - pcm_of(whole)) >> (32 - bits)
    assert np.abs(steps).max() <= 1


def test_even_a_ratio_that_reduces_to_nothing_meets_without_a_seam():
    data = file_of(music(200_000, 1))
    (whole,) = encoded(data, AudioFormat(sample_rate_hz=44_099))
    parts = encoded(data, AudioFormat(sample_rate_hz=44_099, segment_seconds=0.7))
    joined = np.concatenate([pcm_of(part) for part in parts])
    assert np.abs((joined.astype(np.int64) - pcm_of(whole)) >> 16).max() <= 1


def test_resampling_keeps_a_tone_in_place():
    seconds = np.arange(96_000)[:, None] / 48_000
    (segment,) = encoded(
        file_of(0.5 * np.sin(2 * np.pi * 1_000 * seconds), rate_hz=48_000), AudioFormat(sample_rate_hz=16_000)
    )
    assert segment.num_frames == 32_000
    want = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(32_000) / 16_000)
    assert np.abs(pcm_of(segment)[:, 0] / 2**31 - want)[500:-500].max() < 2e-4


@pytest.mark.medium
@pytest.mark.parametrize("rate", [None, 16_000])
@pytest.mark.parametrize(
    ("container", "subtype"), [("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")]
)
@given(chosen=st.sets(st.integers(0, 6), min_size=1), block=st.integers(500, 40_000))
@settings(max_examples=6)
def test_a_segment_depends_on_neither_its_neighbours_nor_the_block_size(container, subtype, rate, chosen, block):
    data = file_of(music(120_000, 2), container, subtype)
    wanted = AudioFormat(sample_rate_hz=rate, segment_seconds=0.4)
    every = encoded(data, wanted)
    planned = plan_segments(120_000, probed(data).sample_rate_hz, wanted)
    segments = [planned[i] for i in sorted(chosen)]
    some = encode_segments(io.BytesIO(data), probed(data), wanted, segments, block_samples=block)
    assert [s.payload for s in some] == [every[i].payload for i in sorted(chosen)]


def test_segments_out_of_order_are_a_callers_error():
    data = file_of(music(50_000))
    segments = [Segment(1, 20_000, 10_000), Segment(0, 0, 10_000)]
    with pytest.raises(ValueError, match="ascend"):
        list(encode_segments(io.BytesIO(data), probed(data), AudioFormat(), segments))


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24"])
def test_flac_in_the_wanted_form_is_copied_byte_for_byte(subtype):
    data = file_of(music(9_000, 2), "FLAC", subtype)
    (segment,) = encoded(data, AudioFormat(compression_level=0))  # encoding again would give other bytes
    assert segment.payload == data


@pytest.mark.parametrize(
    "wanted",
    [
        AudioFormat(bits_per_sample=24),
        AudioFormat(num_channels=1),
        AudioFormat(sample_rate_hz=48_000),
        AudioFormat(segment_seconds=0.1),
    ],
)
def test_flac_in_another_form_is_encoded(wanted):
    data = file_of(music(9_000, 2), "FLAC")
    assert data not in [segment.payload for segment in encoded(data, wanted)]


def test_flac_behind_a_tag_is_encoded():
    data = b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + file_of(music(9_000), "FLAC")
    (segment,) = encoded(data, AudioFormat(compression_level=0))
    assert segment.payload[:4] == b"fLaC"
    assert segment.payload != data[20:]


@pytest.mark.parametrize("wanted", [AudioFormat(), AudioFormat(num_channels=2)])
def test_broken_flac_is_found_by_decoding_it(wanted):
    data = bytearray(file_of(music(60_000), "FLAC"))
    assert reason_of(bytes(data[: len(data) // 2]), wanted).reason == AudioReject.TRUNCATED
    data[len(data) // 2] ^= 1
    assert reason_of(bytes(data), wanted).reason == AudioReject.UNDECODABLE


def test_fewer_frames_than_promised_are_truncated():
    data = file_of(music(5_000))
    assert reason_of(data, info=AudioInfo("WAV", "PCM_16", 6_000, 44_100, 1, 16)).reason == AudioReject.TRUNCATED


@pytest.mark.parametrize(("subtype", "value"), [("FLOAT", np.nan), ("DOUBLE", np.inf)])
def test_a_sample_that_is_not_finite_is_refused_with_its_frame(subtype, value):
    samples = music(5_000, 2)
    samples[3_210, 1] = value
    error = reason_of(file_of(samples, "WAV", subtype))
    assert error.reason == AudioReject.NON_FINITE
    assert "3210" in str(error)


@pytest.mark.parametrize(
    ("samples", "rate", "wanted", "key"),
    [
        (music(100, 9), 44_100, AudioFormat(), "audio.num_channels"),
        (music(100, 3), 44_100, AudioFormat(num_channels=2), "audio.num_channels"),
        (music(100, 1), 96_001, AudioFormat(), "audio.sample_rate"),
    ],
)
def test_what_flac_cannot_hold_is_refused_by_the_key_that_settles_it(samples, rate, wanted, key):
    error = reason_of(file_of(samples, rate_hz=rate), wanted)
    assert error.reason == AudioReject.UNSUPPORTED
    assert key in str(error)


def test_the_same_input_gives_the_same_bytes_on_any_number_of_threads():
    recordings = [file_of(music(40_000, seed=i)) for i in range(6)]
    alone = [encoded(data, AudioFormat(sample_rate_hz=16_000))[0].payload for data in recordings]
    with ThreadPoolExecutor(6) as pool:
        together = list(
            pool.map(lambda data: encoded(data, AudioFormat(sample_rate_hz=16_000))[0].payload, recordings * 2)
        )
    assert together == alone * 2


def test_a_segment_too_large_for_memory_comes_as_a_file(monkeypatch):
    monkeypatch.setattr("headrace.audio.writer._IN_MEMORY_BYTES", 10_000)
    for container in ("WAV", "FLAC"):
        data = file_of(music(9_000), container)
        (segment,) = encoded(data)
        with segment.payload as file:
            payload = file.read()
        assert len(payload) == segment.num_bytes
        np.testing.assert_array_equal(sf.read(io.BytesIO(payload))[0], sf.read(io.BytesIO(data))[0])


@pytest.mark.medium
@pytest.mark.parametrize("rate", [None, 16_000])
def test_memory_does_not_grow_with_the_recording(tmp_path, rate):
    path = tmp_path / "long.wav"
    with sf.SoundFile(path, "w", 44_100, 2, "PCM_16") as file:
        for second in range(60):
            file.write(music(44_100, 2, seed=second))
    wanted = AudioFormat(sample_rate_hz=rate, segment_seconds=None if rate else 5.0)
    info = AudioInfo("WAV", "PCM_16", 60 * 44_100, 44_100, 2, 16)
    stop = 60 * (rate or 44_100)
    segments = [Segment(0, 0, stop)] if rate else [Segment(i, i * 220_500, 220_500) for i in range(12)]
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            for segment in encode_segments(file, info, wanted, segments, block_samples=1 << 16):
                del segment
        assert tracemalloc.get_traced_memory()[1] < 6 << 20  # the recording as float32 would be 21 MB
    finally:
        tracemalloc.stop()


def test_the_codec_version_names_all_that_bytes_depend_on():
    version = codec_version()
    assert version == codec_version()
    for name in ("headrace", sf.__libsndfile_version__, "libFLAC"):
        assert name in version
