"""Decoding FLAC into a caller's buffer: equal to libsndfile bit for bit, and never quietly wrong."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio import AudioReject, decode, decode_flac_into, decode_flac_part, flac_info, whole_flac_info
from headrace.errors import AudioError
from tests.support.sounds import file_of, integers, music

shapes = st.tuples(st.integers(1, 20_000), st.sampled_from([1, 2, 3, 8]), st.sampled_from([16, 24]))


def reference(data):
    return sf.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T


def flac_of(num_frames, num_channels=1, bits=16, *, noise=False, seed=0):
    samples = integers(num_frames, num_channels, bits, seed) if noise else music(num_frames, num_channels, seed=seed)
    return file_of(samples, "FLAC", f"PCM_{bits}")


@given(shapes, st.booleans(), st.integers(0, 9))
@settings(max_examples=40)
def test_decoding_equals_libsndfile_bit_for_bit(shape, noise, seed):
    data = flac_of(*shape, noise=noise, seed=seed)
    out = np.full((shape[1], shape[0] + 3), 7, np.float32)
    assert decode_flac_into(data, out) == shape[0]
    np.testing.assert_array_equal(out[:, : shape[0]], reference(data))
    assert (out[:, shape[0] :] == 7).all()


@pytest.mark.medium
@given(st.data(), st.sampled_from([1, 2]))
@settings(max_examples=40)
def test_any_range_equals_that_range_of_the_whole(data, num_channels):
    blob = flac_of(20_000, num_channels)
    start = data.draw(st.integers(0, 20_000))
    count = data.draw(st.integers(0, 20_000 - start))
    out = np.empty((num_channels, count), np.float32)
    assert decode_flac_into(blob, out, start, count) == count
    np.testing.assert_array_equal(out, reference(blob)[:, start : start + count])


@pytest.mark.parametrize("num_channels", [1, 2])
def test_any_strides_will_do(num_channels):
    blob = flac_of(9_000, num_channels)
    for out in (
        np.empty((9_000, num_channels), np.float32).T,
        np.empty((num_channels, 18_000), np.float32)[:, ::2],
        np.empty((3, num_channels, 10_000), np.float32)[1],
    ):
        decode_flac_into(memoryview(blob), out)
        np.testing.assert_array_equal(out[:, :9_000], reference(blob))


@pytest.mark.parametrize(("num_channels", "bits"), [(1, 16), (2, 24), (8, 16)])
def test_the_header_has_frames_rate_channels_and_bits(num_channels, bits):
    assert flac_info(flac_of(123, num_channels, bits)[:42]) == (123, 44_100, num_channels, bits)


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "unsupported"), (b"RIFF" * 20, "unsupported"), (b"fLaC\0", "truncated")]
)
def test_what_is_no_flac_header_is_refused(data, reason):
    with pytest.raises(AudioError) as refusal:
        flac_info(data)
    assert refusal.value.reason == reason


@pytest.mark.medium
@given(st.integers(min_value=0), st.integers(0, 7), st.sampled_from([1, 2]))
@settings(max_examples=60)
def test_a_flipped_bit_is_an_error_or_harmless(position, bit, num_channels):
    blob = bytearray(flac_of(20_000, num_channels))
    want = reference(bytes(blob))
    blob[4 + position % (len(blob) - 4)] ^= 1 << bit
    try:
        samples, rate = decode(bytes(blob))
    except AudioError:
        return
    # Harmless: in a header's field that no sample depends on; or in its rate or length, which no checksum covers.
    assert samples.shape != want.shape or rate != 44_100 or np.array_equal(samples, want)


@pytest.mark.medium
@given(st.integers(min_value=0))
@settings(max_examples=50)
def test_a_cut_stream_is_truncated(cut):
    blob = flac_of(20_000)
    stop = 42 + cut % (len(blob) - 42)
    with pytest.raises(AudioError) as refusal:
        decode(blob[:stop])
    assert refusal.value.reason == AudioReject.TRUNCATED or stop < 200  # or within the header's blocks: nothing decodes


def test_damage_in_the_middle_is_distinguished_from_a_missing_end():
    blob = bytearray(flac_of(60_000))
    blob[len(blob) // 2] ^= 16
    with pytest.raises(AudioError, match="checksum") as refusal:
        decode(bytes(blob))
    assert refusal.value.reason == AudioReject.UNDECODABLE


def test_a_stream_of_unknown_length_is_decoded_by_the_reference():
    blob = bytearray(flac_of(20_000))
    want = reference(bytes(blob))
    blob[21] &= 0xF0
    blob[22:26] = bytes(4)
    assert flac_info(blob).num_frames == 0
    np.testing.assert_array_equal(decode(bytes(blob))[0], want)
    with pytest.raises(AudioError, match="unknown length"):
        decode_flac_into(bytes(blob), np.empty((1, 20_000), np.float32))


@pytest.mark.parametrize(
    "out",
    [np.empty((2, 100), np.float32), np.empty((1, 99), np.float32), np.empty((1, 100)), np.empty(100, np.float32)],
)
def test_a_buffer_that_does_not_fit_is_refused_with_its_shape(out):
    with pytest.raises(ValueError, match=r"expected float32 \(1, at least 100\)"):
        decode_flac_into(flac_of(100), out)


def test_a_range_beyond_the_stream_is_refused():
    with pytest.raises(ValueError, match="50:150"):
        decode_flac_into(flac_of(100), np.empty((1, 100), np.float32), 50, 100)


def test_threads_do_not_disturb_each_other():
    blobs = [flac_of(30_000, 1 + i % 2, seed=i) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        decoded = list(pool.map(lambda blob: decode(blob)[0], blobs * 4))
    for i, samples in enumerate(decoded):
        np.testing.assert_array_equal(samples, reference(blobs[i % 8]))


def test_a_promise_of_more_frames_than_the_bytes_can_hold_is_damage_not_gigabytes():
    damaged = bytearray(flac_of(1000))
    assert whole_flac_info(damaged).num_frames == 1000
    damaged[21] |= 0x0F  # the four highest of the 36 bits that count frames
    with pytest.raises(AudioError, match="hold at most") as caught:
        decode(bytes(damaged))
    assert caught.value.reason == AudioReject.UNDECODABLE


@pytest.mark.parametrize(("num_channels", "bits"), [(1, 16), (2, 16), (1, 24), (3, 16)])
def test_a_part_of_a_damaged_stream_is_right_or_an_error(num_channels, bits):
    """Every place of the damage, before, in and behind the part: dr_flac drops a frame, and others take its place."""
    num_frames, length = 40_000, 9_000
    data = flac_of(num_frames, num_channels, bits, noise=True)
    whole, found = reference(data), {"right": 0, "error": 0}
    out = np.empty((num_channels, length), np.float32)
    for place in range(len(data) // 50, len(data), len(data) // 50):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        for start in (0, 11_000, 22_222, num_frames - length):
            try:
                decode_flac_part(damaged, out, start)
            except AudioError:
                found["error"] += 1
            else:
                np.testing.assert_array_equal(out, whole[:, start : start + length])
                found["right"] += 1
    assert min(found.values()) > 20


@given(st.data(), shapes)
@settings(max_examples=30)
def test_a_part_of_a_sound_stream_is_that_of_the_whole(draw, shape):
    data = flac_of(*shape)
    start = draw.draw(st.integers(0, shape[0]))
    stop = draw.draw(st.integers(start, shape[0]))
    out = np.full((shape[1], stop - start), 7, np.float32)
    decode_flac_part(data, out, start)
    np.testing.assert_array_equal(out, reference(data)[:, start:stop])
