"""Recordings of several channels have the order of WAV, whatever the order of their own format."""

import io
import struct

import numpy as np
import pytest
import soundfile as sf

from headrace.audio import AudioReject, decode, decode_into
from headrace.audio.ogg import changed_page
from headrace.errors import AudioError
from tests.support.sounds import encoded, file_of, music, pcm_of

RATE = 48_000
OGG = {
    3: (0, 2, 1),
    4: (0, 1, 2, 3),
    5: (0, 2, 1, 3, 4),
    6: (0, 2, 1, 5, 3, 4),
    7: (0, 2, 1, 6, 5, 3, 4),
    8: (0, 2, 1, 7, 5, 6, 3, 4),
}
LAYOUTS = {
    (113, 3): (0, 1, 2),
    (114, 3): (1, 2, 0),
    (108, 4): (0, 1, 2, 3),
    (116, 4): (1, 2, 0, 3),
    (118, 5): (0, 1, 4, 2, 3),
    (119, 5): (0, 2, 1, 3, 4),
    (120, 5): (1, 2, 0, 3, 4),
    (121, 6): (0, 1, 2, 3, 4, 5),
    (122, 6): (0, 1, 4, 5, 2, 3),
    (123, 6): (0, 2, 1, 5, 3, 4),
    (124, 6): (1, 2, 0, 5, 3, 4),
    (142, 7): (1, 2, 0, 6, 3, 4, 5),
    (127, 8): (3, 4, 0, 7, 5, 6, 1, 2),
    (129, 8): (0, 1, 4, 5, 2, 3, 6, 7),
    (147, 6): (0, 1, 2, 3, 4, 5),  # discrete channels
    (0xFFFF, 6): (0, 1, 2, 3, 4, 5),  # unknown
}
"""Upper half of a layout's tag, and number of channels → the order in which WAV has them."""


def layout_of(tag, labels=(), bitmap=0):
    return struct.pack(">III", tag, bitmap, len(labels)) + b"".join(struct.pack(">I16x", label) for label in labels)


def laid_out(container, samples, layout):
    """A CAF or AIFF file with a chunk of this channel layout."""
    data = file_of(samples, container, "PCM_16", RATE)
    if container == "CAF":
        return data[:52] + b"chan" + struct.pack(">Q", len(layout)) + layout + data[52:]
    chunk = b"CHAN" + struct.pack(">I", len(layout)) + layout
    size = int.from_bytes(data[4:8], "big") + len(chunk)
    return data[:4] + size.to_bytes(4, "big") + data[8:12] + chunk + data[12:]


def stored(data):
    """The channels in the order of the file, as another reader gives them."""
    return sf.read(io.BytesIO(data), dtype="float32", always_2d=True)[0].T


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("num_channels", OGG)
def test_ogg_is_reordered_where_it_is_decoded_and_where_it_is_encoded(subtype, num_channels):
    data = file_of(music(2_000, num_channels, RATE), "OGG", subtype, RATE)
    samples, _ = decode(data)
    np.testing.assert_array_equal(samples, stored(data)[list(OGG[num_channels])])
    (segment,) = encoded(data)
    assert np.abs(pcm_of(segment).T / 2.0**31 - samples).max() <= 2.0**-15


def test_opus_without_speakers_keeps_its_order():
    data = file_of(music(2_000, 4, RATE), "OGG", "OPUS", RATE)
    stop = 27 + data[26] + sum(data[27 : 27 + data[26]])
    discrete = changed_page(data[:stop], data.index(b"OpusHead") + 18, b"\xff") + data[stop:]
    np.testing.assert_array_equal(decode(discrete)[0], stored(discrete))


@pytest.mark.parametrize("container", ["CAF", "AIFF"])
@pytest.mark.parametrize(("tag", "order"), LAYOUTS.items(), ids=str)
def test_layouts_of_apple_are_reordered(container, tag, order):
    kind, num_channels = tag
    data = laid_out(container, music(500, num_channels, RATE), layout_of(kind << 16 | num_channels))
    np.testing.assert_array_equal(decode(data)[0], stored(data)[list(order)])


@pytest.mark.parametrize("container", ["CAF", "AIFF"])
def test_described_channels_are_sorted_and_a_bitmap_is_in_order(container):
    samples = music(500, 4, RATE)
    described = laid_out(container, samples, layout_of(0, labels=(3, 9, 2, 1)))  # center, back center, right, left
    np.testing.assert_array_equal(decode(described)[0], stored(described)[[3, 2, 0, 1]])
    listed = laid_out(container, samples, layout_of(1 << 16, bitmap=0b1111))
    np.testing.assert_array_equal(decode(listed)[0], stored(listed))


@pytest.mark.parametrize(
    "layout", [layout_of(145 << 16 | 16), layout_of(122 << 16 | 6), layout_of(0, (1, 2, 3))], ids=["TMH", "5.1", "3"]
)
def test_layouts_that_are_unknown_or_of_other_channels_are_unsupported(layout):
    with pytest.raises(AudioError, match="layout") as caught:
        decode(laid_out("CAF", music(500, 4, RATE), layout))
    assert caught.value.reason == AudioReject.UNSUPPORTED


@pytest.mark.parametrize("num_channels", [1, 2])
def test_mono_and_stereo_keep_their_order(num_channels):
    data = laid_out("CAF", music(500, num_channels, RATE), layout_of((99 + num_channels) << 16 | num_channels))
    np.testing.assert_array_equal(decode(data)[0], stored(data))


def test_a_part_that_is_sought_has_the_same_order():
    data = laid_out("CAF", music(5_000, 6, RATE), layout_of(122 << 16 | 6))
    whole, part = decode(data)[0], np.empty((6, 1_000), np.float32)
    decode_into(data, part, 3_000)
    np.testing.assert_array_equal(part, whole[:, 3_000:4_000])
