"""Ogg at the input: every damaged, missing or added page is reported, and every stream of a chain is decoded."""

import io
import random

import numpy as np
import pytest
import soundfile as sf

from headrace.audio import AudioFormat, AudioReject, decode
from headrace.audio.ogg import page_checksum
from headrace.errors import AudioError
from tests.support.sounds import encoded, file_of, music, pcm_of, probed, rate_of

SUBTYPES = ["VORBIS", "OPUS"]


def ogg_of(subtype, seconds=2, seed=0, num_channels=1):
    rate = rate_of(subtype)
    return file_of(music(int(rate * seconds), num_channels, rate, seed), "OGG", subtype, rate)


def pages_of(data):
    """The pages of an Ogg file."""
    pages = []
    while data:
        size = 27 + data[26] + sum(data[27 : 27 + data[26]])
        pages.append(data[:size])
        data = data[size:]
    return pages


def with_checksum(page):
    page = page[:22] + bytes(4) + page[26:]
    return page[:22] + page_checksum(page).to_bytes(4, "little") + page[26:]


def renamed(data, serial):
    """Stream with another serial number."""
    return b"".join(with_checksum(page[:14] + serial.to_bytes(4, "little") + page[18:]) for page in pages_of(data))


def reference(data):
    return sf.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T


def refusal_of(data):
    with pytest.raises(AudioError) as refusal:
        probed(data)
    return refusal.value


def bit_by_bit(data):
    """The checksum as RFC 3533 defines it."""
    register = 0
    for byte in data:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1 ^ (0x04C11DB7 if register >> 31 else 0)) & 0xFFFFFFFF
    return register


def test_the_checksum_is_that_of_the_rfc():
    rng = random.Random(0)
    for size in (0, 1, 2, 3, 4, 7, 100, 1001):
        data = rng.randbytes(size)
        assert page_checksum(data) == bit_by_bit(data)
    for page in pages_of(ogg_of("VORBIS")):
        assert with_checksum(page) == page


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_flipped_bit_anywhere_is_refused(subtype):
    data = ogg_of(subtype)
    rng = random.Random(1)
    for _ in range(200):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        assert refusal_of(bytes(damaged)).reason in {
            AudioReject.UNDECODABLE,
            AudioReject.TRUNCATED,
            AudioReject.UNSUPPORTED,
        }


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_page_that_is_missing_or_comes_twice_or_in_disorder_is_refused(subtype):
    pages = pages_of(ogg_of(subtype))
    for number in range(2, len(pages)):
        assert refusal_of(b"".join(pages[:number] + pages[number + 1 :])).reason in {
            AudioReject.UNDECODABLE,
            AudioReject.TRUNCATED,
        }
    assert refusal_of(b"".join([*pages[:3], pages[2], *pages[3:]])).reason == AudioReject.UNDECODABLE
    assert refusal_of(b"".join([*pages[:2], pages[3], pages[2], *pages[4:]])).reason == AudioReject.UNDECODABLE


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_a_stream_without_its_last_page_is_cut_off(subtype):
    pages = pages_of(ogg_of(subtype))
    error = refusal_of(b"".join(pages[:-1]))
    assert error.reason == AudioReject.TRUNCATED
    assert "end of the stream" in str(error)


def repositioned(page, shift):
    granule = int.from_bytes(page[6:14], "little") + shift
    return with_checksum(page[:6] + granule.to_bytes(8, "little") + page[14:])


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_positions_that_promise_more_than_there_is_or_go_back_are_refused(subtype):
    data = ogg_of(subtype)
    *pages, last = pages_of(data)
    assert refusal_of(b"".join([*pages, repositioned(last, -30_000)])).reason == AudioReject.UNDECODABLE
    with pytest.raises(AudioError) as refusal:
        encoded(b"".join([*pages, repositioned(last, 30_000)]))
    assert refusal.value.reason == AudioReject.TRUNCATED
    shifted = [*pages[:2], *(repositioned(page, 10_000) for page in [*pages[2:], last])]  # a cut out of a broadcast
    assert probed(b"".join(shifted)).num_frames == probed(data).num_frames


def test_bytes_between_pages_are_refused_and_behind_them_are_no_fault():
    data = ogg_of("VORBIS")
    pages = pages_of(data)
    assert refusal_of(b"".join([*pages[:3], b"noise", *pages[3:]])).reason == AudioReject.UNDECODABLE
    np.testing.assert_array_equal(decode(data + b"TAG" + bytes(125))[0], reference(data))


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_every_stream_of_a_chain_is_decoded(subtype):
    links = [ogg_of(subtype, 1 + 0.3 * seed, seed, 2) for seed in range(3)]
    want = np.concatenate([reference(link) for link in links], axis=1)
    data = b"".join(links)
    assert probed(data).num_frames == want.shape[1] > reference(data).shape[1]
    np.testing.assert_array_equal(decode(data)[0], want)
    parts = encoded(data, AudioFormat(segment_seconds=0.4))
    np.testing.assert_allclose(np.concatenate([pcm_of(part) for part in parts]).T / 2**31, want, atol=2**-16)


def test_a_chain_of_unlike_streams_is_refused():
    for other in (ogg_of("VORBIS", num_channels=2), ogg_of("OPUS"), file_of(music(9_000), "OGG", "VORBIS", 22_050)):
        error = refusal_of(ogg_of("VORBIS") + other)
        assert error.reason == AudioReject.UNSUPPORTED
        assert "number 2" in str(error)


def test_a_damaged_link_of_a_chain_is_refused():
    data = ogg_of("VORBIS", 1)
    chain = bytearray(data + ogg_of("VORBIS", 1, seed=1))
    chain[len(data) + 2_000] ^= 4
    assert refusal_of(bytes(chain)).reason == AudioReject.UNDECODABLE
    assert refusal_of(bytes(chain[: len(data) + 2_000])).reason == AudioReject.TRUNCATED


def test_streams_beside_each_other_are_refused():
    first, second = (pages_of(renamed(ogg_of("VORBIS", seed=seed), seed)) for seed in (1, 2))
    mixed = [page for pair in zip(first, second, strict=False) for page in pair]
    error = refusal_of(b"".join(mixed))
    assert error.reason == AudioReject.UNSUPPORTED
    assert "interleaved" in str(error)
