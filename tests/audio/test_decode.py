"""Tests of `headrace.audio.decode`."""

import io
import random
import tracemalloc

import miniaudio
import numpy as np
import pytest
import soundfile as sf

from headrace.audio import AudioReject, decode, decode_into
from headrace.errors import AudioError
from tests.support.mpeg import reference, refusal_of
from tests.support.mpegs import mp3_of
from tests.support.sounds import encoded, file_of, music, pcm_of, probed

ID3V2 = b"ID3\x04\0\0\0\0\x0f\x00" + bytes(range(1, 129)) * 15


ID3V1 = b"TAG" + b"title".ljust(125, b"\0")


APE = b"APETAGEX" + b"\xd0\x07\0\0" + (40).to_bytes(4, "little") + bytes(8) + b"\0\0\0\x80" + bytes(4)


FORMS = [(1, 44_100), (2, 44_100), (2, 22_050), (1, 8_000), (2, 48_000)]


@pytest.mark.parametrize(("num_channels", "rate"), FORMS)
def test_a_sound_file_is_as_long_as_frames_less_delay_and_padding(num_channels, rate):
    mp3 = mp3_of(rate + 77, num_channels, rate)
    delay, padding = mp3.delay_and_padding
    samples = mp3.num_frames * (1152 if rate >= 32_000 else 576)
    assert probed(mp3.data).num_frames == samples - (delay + 529) - max(0, padding - 529) == rate + 77
    np.testing.assert_array_equal(decode(mp3.data)[0], reference(mp3.data))


@pytest.mark.parametrize(("num_channels", "rate"), FORMS)
def test_every_frame_is_decoded_without_a_header(num_channels, rate):
    mp3 = mp3_of(rate * 2, num_channels, rate)
    whole = mp3.num_frames * (1152 if rate >= 32_000 else 576)
    assert sf.info(io.BytesIO(mp3.frames)).frames < whole  # a variable rate: libsndfile guesses by the first frame
    assert probed(mp3.frames).num_frames == whole == miniaudio.mp3_get_info(mp3.frames).num_frames
    samples, _ = decode(mp3.frames)
    delay, _ = mp3.delay_and_padding
    np.testing.assert_array_equal(samples[:, delay + 529 :][:, : rate * 2], reference(mp3.data))


def test_a_header_that_counts_its_own_frame_is_right():
    mp3 = mp3_of(50_000)
    np.testing.assert_array_equal(decode(mp3.promising(mp3.num_frames + 1))[0], reference(mp3.data))


def test_a_header_that_does_not_count_is_no_promise():
    mp3 = mp3_of(50_000)
    flags = mp3.data[mp3.mark_at + 4 : mp3.mark_at + 8]
    assert flags == b"\0\0\0\x0f"
    frame = mp3.data[: mp3.first_frame]
    without = frame[: mp3.mark_at + 4] + b"\0\0\0\x0e" + frame[mp3.mark_at + 12 :] + bytes(4)
    np.testing.assert_array_equal(decode(without + mp3.frames)[0], reference(mp3.data))


def test_a_vbri_header_is_no_audio_and_says_nothing_on_delay():
    mp3 = mp3_of(50_000)
    count = mp3.num_frames.to_bytes(4, "big")
    head = (mp3.data[:4] + bytes(32) + b"VBRI" + bytes(10) + count).ljust(mp3.first_frame, b"\0")
    assert probed(head + mp3.frames).num_frames == mp3.num_frames * 1152
    np.testing.assert_array_equal(decode(head + mp3.frames)[0], decode(mp3.frames)[0])
    cut = mp3.frames[: mp3.frames.index(mp3.data[:2], len(mp3.frames) // 2)]
    assert refusal_of(head + cut).reason == AudioReject.TRUNCATED


@pytest.mark.parametrize("before", [ID3V2, ID3V2 + ID3V2], ids=["one", "two"])
def test_tags_before_the_first_frame_cost_no_frame(before):
    mp3 = mp3_of(50_000)
    np.testing.assert_array_equal(decode(before + mp3.data)[0], reference(mp3.data))
    np.testing.assert_array_equal(decode(before + mp3.frames)[0], decode(mp3.frames)[0])


@pytest.mark.parametrize(
    "between",
    [b"", ID3V2, ID3V1, ID3V1 + ID3V2, APE, bytes(300)],
    ids=["nothing", "ID3v2", "ID3v1", "both", "APE", "zeros"],
)
def test_joined_files_are_their_sounds_one_after_another(between):
    files = [mp3_of(30_000 + 5_000 * i, 2, seed=i).data for i in range(3)]
    want = np.concatenate([reference(file) for file in files], axis=1)
    data = ID3V2 + between.join(files) + ID3V1
    assert probed(data).num_frames == want.shape[1] == 105_000
    np.testing.assert_array_equal(decode(data)[0], want)
    (segment,) = encoded(data)
    np.testing.assert_allclose(pcm_of(segment).T / 2**31, want, atol=2**-16)


def test_joined_files_without_headers_are_one_stream():
    mp3 = mp3_of(60_000)
    cut = len(mp3.frames) // 2
    at = mp3.frames.index(mp3.data[:2], cut)
    tagged = mp3.frames[:at] + ID3V2 + mp3.frames[at:]
    np.testing.assert_array_equal(decode(tagged)[0], decode(mp3.frames)[0])


def test_a_file_without_a_header_behind_one_with_is_a_stream_of_its_own():
    first, second = mp3_of(40_000), mp3_of(30_000, seed=1)
    data = first.data + ID3V1 + ID3V2 + second.frames
    np.testing.assert_array_equal(
        decode(data)[0], np.concatenate([reference(first.data), decode(second.frames)[0]], axis=1)
    )


@pytest.mark.medium
def test_no_flipped_bit_in_a_frame_costs_a_frame_in_silence():
    mp3 = mp3_of(30_000, 2)
    rng = random.Random(2)
    for _ in range(200):
        damaged = bytearray(mp3.data)
        damaged[rng.randrange(mp3.first_frame, len(mp3.data))] ^= 1 << rng.randrange(8)
        try:
            samples = decode(bytes(damaged))[0]
        except AudioError:
            continue
        assert samples.shape[1] == 30_000


def test_mpeg_layer_2_is_counted_too():
    # Frames of silence: 144 * 128,000 / 44,100 bytes, stereo, no bits allocated.
    data = (b"\xff\xfd\x80\x04" + bytes(413)) * 40
    assert probed(data).num_frames == 40 * 1152
    assert decode(data)[0].shape == (2, 40 * 1152)


def _called(*_):
    raise AssertionError("libsndfile reads through Python")


@pytest.mark.parametrize(("container", "subtype"), [("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("WAV", "PCM_16")])
def test_libsndfile_reads_audio_in_memory_without_calls_of_python(monkeypatch, container, subtype):
    data = file_of(music(20_000), container, subtype)
    wanted = sf.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T
    monkeypatch.setattr(sf.SoundFile, "_init_virtual_io", _called)
    np.testing.assert_array_equal(decode(data)[0], wanted)


def test_a_short_file_after_a_long_one_is_decoded_alone():
    long, short = (mp3_of(num_frames).data for num_frames in (90_000, 9_000))
    decode(long)
    np.testing.assert_array_equal(decode(short)[0], reference(short))


@pytest.mark.parametrize("num_channels", [1, 2])
def test_a_whole_flac_is_decoded_into_its_place_without_a_copy(num_channels):
    """Clips that do not fit in memory are decoded into a mapped file."""
    data = file_of(music(1_000_000, num_channels), "FLAC", "PCM_16")
    out = np.empty((num_channels, 1_000_000), np.float32)
    tracemalloc.start()
    decode_into(data, out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < out.nbytes / 8
