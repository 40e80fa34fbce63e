"""A part of a file has the values of the same frames of a whole decode, and only few bytes are read."""

import io
from functools import cache

import numpy as np
import pytest
import soundfile as sf

from headrace.audio.decode import decode
from headrace.audio.member_file import MemberFile
from headrace.audio.partial import PartFacts, decode_part
from tests.support.mpegs import mp3_of

SECONDS = 3


def music(rate, channels, seed, seconds=SECONDS):
    """Tones with noise and silence: frames of a codec differ in size."""
    random = np.random.default_rng(seed)
    time = np.arange(seconds * rate + int(random.integers(0, 999)))[:, None] / rate
    tones = np.sin(2 * np.pi * time * random.uniform(100, 2000, channels) * (1 + 0.1 * np.sin(time)))
    loud = (np.sin(2 * np.pi * time * 0.7) > 0) * random.uniform(0.1, 0.5)
    return np.clip(tones * loud + loud * 0.1 * random.standard_normal(tones.shape), -0.99, 0.99)


def encoded(container, subtype, rate, channels, seed, **more):
    file, seconds = io.BytesIO(), more.pop("seconds", SECONDS)
    sf.write(file, music(rate, channels, seed, seconds), rate, format=container, subtype=subtype, **more)
    return file.getvalue()


RATES = (8_000, 16_000, 22_050, 44_100, 48_000)
CASES = {
    "wav": [
        ("WAV", subtype, rate, channels, {})
        for subtype in ("PCM_16", "PCM_24", "PCM_32", "FLOAT")
        for rate, channels in ((8_000, 1), (22_050, 2), (16_000, 3))
    ]
    + [("WAVEX", subtype, 16_000, 4, {}) for subtype in ("PCM_16", "PCM_24", "FLOAT")],
    "flac": [
        ("FLAC", f"PCM_{bits}", rate, channels, {"compression_level": level})
        for bits in (16, 24)
        for rate, channels in ((8_000, 1), (16_000, 2), (44_100, 1), (22_050, 5), (48_000, 2))
        for level in (0.0, 1.0)
    ],
    "mp3": [
        ("MP3", "MPEG_LAYER_III", rate, channels, {"bitrate_mode": mode, "compression_level": level})
        for rate in RATES
        for channels in (1, 2)
        for mode, level in (("CONSTANT", 0.99), ("VARIABLE", 0.0))
    ],
    "vorbis": [
        ("OGG", "VORBIS", rate, channels, {"compression_level": level})
        for rate in RATES
        for channels in (1, 2)
        for level in (0.1, 0.9)
    ],
}


@cache
def files(kind):
    return [
        encoded(container, subtype, rate, channels, number, **more)
        for number, (container, subtype, rate, channels, more) in enumerate(CASES[kind])
    ]


def part(blob, facts, count, start, block_bytes=4096):
    """The part, or None; and how many bytes were read."""
    read = []

    def reading(first, last):
        read.append(last - first)
        return memoryview(blob)[first:last]

    out = np.full((facts.num_channels, count), 7, np.float32)
    is_done = decode_part(MemberFile(reading, len(blob), block_bytes), facts, out, start)
    return (out if is_done else None), sum(read)


def places(length, seed, number=6):
    random = np.random.default_rng(seed)
    count = max(1, length // 20)
    starts = [0, 1, length - count, length - count - 1, *random.integers(0, length - count, number).tolist()]
    return [(start, count) for start in starts] + [(length - 1, 1)]


@pytest.mark.medium
@pytest.mark.parametrize("kind", CASES)
def test_a_part_is_that_of_the_whole_decode(kind):
    for number, blob in enumerate(files(kind)):
        whole, rate = decode(blob)
        facts = PartFacts(whole.shape[1], rate, whole.shape[0])
        for start, count in places(whole.shape[1], number):
            found, _ = part(blob, facts, count, start)
            assert found is not None, (number, start)
            assert np.array_equal(found, whole[:, start : start + count]), (number, start)


@pytest.mark.medium
def test_opus_without_seek_points_is_left_to_the_whole_decode():
    """The search of libsndfile is wrong by a page at some places, so nothing is read for it."""
    for number, rate in enumerate((8_000, 16_000, 24_000, 48_000)):
        blob = encoded("OGG", "OPUS", rate, 1 + number % 2, number)
        whole, rate_hz = decode(blob)
        assert part(blob, PartFacts(whole.shape[1], rate_hz, whole.shape[0]), 100, 5_000)[0] is None


def test_mp3_without_a_header_and_with_a_tag_is_read_in_parts():
    file = mp3_of(3 * 44_100, 2)
    bare = file.frames
    tag = b"ID3\4\0\0\0\0\2\0" + bytes(256)
    for blob in (bare, tag + bare, tag + file.data):
        whole, rate = decode(blob)
        for start, count in places(whole.shape[1], 3, 5):
            found, _ = part(blob, PartFacts(whole.shape[1], rate, 2), count, start)
            assert np.array_equal(found, whole[:, start : start + count])


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "vorbis"])
def test_facts_that_differ_from_the_header_are_left_to_the_whole_decode(kind):
    blob = files(kind)[-1]
    whole, rate = decode(blob)
    right = (whole.shape[1], rate, whole.shape[0])
    for place in range(3):
        wrong = PartFacts(*(value + (2 if number == place else 0) for number, value in enumerate(right)))
        assert part(blob, wrong, 100, 50)[0] is None


def test_joined_mp3_and_audio_behind_junk_are_left_to_the_whole_decode():
    file, other = mp3_of(44_100, 1), mp3_of(50_000, 1)
    joined = file.data + other.data
    whole, rate = decode(joined)
    facts = PartFacts(whole.shape[1], rate, 1)
    assert part(joined, facts, 1000, 40_000)[0] is None
    bare = file.frames + other.frames
    middle = len(file.data) // 2
    damaged = bare[:middle] + bytes(300) + bare[middle:]
    assert part(damaged, PartFacts(1152 * 80, rate, 1), 1000, 60_000)[0] is None


@pytest.mark.parametrize("kind", ["flac", "wav"])
def test_damage_inside_of_the_part_of_flac_and_a_lost_end_are_noticed(kind):
    blob = files(kind)[1]
    whole, rate = decode(blob)
    facts = PartFacts(whole.shape[1], rate, whole.shape[0])
    assert part(blob[: len(blob) // 3], facts, 1000, whole.shape[1] - 1000)[0] is None
    if kind == "flac":
        random, missed = np.random.default_rng(0), 0
        for place in random.integers(len(blob) // 3, 2 * len(blob) // 3, 60).tolist():
            damaged = bytearray(blob)
            damaged[place] ^= 1 << (place % 8)
            found, _ = part(bytes(damaged), facts, whole.shape[1] // 2, whole.shape[1] // 4)
            missed += found is not None and not np.array_equal(
                found, whole[:, whole.shape[1] // 4 : whole.shape[1] // 4 + whole.shape[1] // 2]
            )
        assert missed == 0


def test_floats_that_are_not_finite_are_left_to_the_whole_decode():
    samples = music(8_000, 1, 0).astype(np.float32)
    samples[9_000] = np.nan
    file = io.BytesIO()
    sf.write(file, samples, 8_000, format="WAV", subtype="FLOAT")
    facts = PartFacts(len(samples), 8_000, 1)
    assert part(file.getvalue(), facts, 1000, 8_500)[0] is None
    assert part(file.getvalue(), facts, 1000, 2_000)[0] is not None


@pytest.mark.parametrize(("kind", "most"), [("wav", 1.1), ("flac", 4.0)])
def test_only_the_bytes_of_the_part_are_read(kind, most):
    blob = max(files(kind), key=len)
    whole, rate = decode(blob)
    count = whole.shape[1] // 10
    _, read = part(blob, PartFacts(whole.shape[1], rate, whole.shape[0]), count, whole.shape[1] // 2)
    assert read < most * len(blob) / 10 + 20_000
