"""The codecs of a sample's audio: FLAC, Opus, or the recording's own bytes."""

import hashlib
import io
import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from headrace.audio import (
    AudioFormat,
    AudioInfo,
    Codec,
    Segment,
    codec_version,
    decode,
    decode_into,
    kept_extension,
    open_encoded,
    planned_bytes,
    with_serial,
)
from headrace.errors import AudioError, ConfigError
from tests.support.sounds import FORMATS, encoded, file_of, music, probed, rate_of

COPY = AudioFormat(codec=Codec.COPY)
OPUS = AudioFormat(codec=Codec.OPUS)
KEPT = {
    ("MP3", "MPEG_LAYER_III"): "mp3",
    ("OGG", "OPUS"): "opus",
    ("OGG", "VORBIS"): "ogg",
    ("WAV", "PCM_16"): "wav",
    ("WAV", "FLOAT"): "wav",
    ("WAV", "ULAW"): "wav",
    ("FLAC", "PCM_16"): "flac",
}


def recording(container, subtype, num_frames=9_000, channels=2):
    return file_of(music(num_frames, channels), container, subtype, rate_of(subtype))


@pytest.mark.parametrize(("container", "subtype"), FORMATS)
def test_a_whole_recording_keeps_its_bytes_if_loaders_decode_its_format_exactly(container, subtype):
    data = recording(container, subtype)
    (sample,) = encoded(data, COPY)
    extension = KEPT.get((container, subtype))
    if extension is not None:
        assert (sample.extension, sample.payload) == (extension, data)
    assert sample.extension == (kept_extension(probed(data), COPY, Segment(0, 0, sample.num_frames)) or "flac")
    assert (sample.payload == data) == (sample.extension != "flac" or container == "FLAC")
    samples, rate = decode(sample.payload)
    assert (samples.shape[1], samples.shape[0], rate) == (
        sample.num_frames,
        sample.num_channels,
        sample.sample_rate_hz,
    )


@pytest.mark.parametrize(
    "wanted",
    [
        replace(COPY, sample_rate_hz=16_000),
        replace(COPY, num_channels=1),
        replace(COPY, segment_seconds=0.1),
    ],
)
def test_a_sample_in_another_form_is_written_as_flac(wanted):
    data = recording("MP3", "MPEG_LAYER_III")
    assert {sample.extension for sample in encoded(data, wanted)} == {"flac"}
    plain = replace(wanted, codec=Codec.FLAC)
    assert [sample.payload for sample in encoded(data, wanted)] == [sample.payload for sample in encoded(data, plain)]


def test_bits_matter_for_codings_that_have_them():
    wav, mp3 = recording("WAV", "PCM_24"), recording("MP3", "MPEG_LAYER_III")
    assert encoded(wav, replace(COPY, bits_per_sample=24))[0].payload == wav
    assert encoded(wav, replace(COPY, bits_per_sample=16))[0].extension == "flac"
    assert encoded(mp3, replace(COPY, bits_per_sample=16))[0].payload == mp3


def damaged(container, subtype):
    data = bytearray(recording(container, subtype))
    if container == "WAV":
        data[len(data) - 4 :] = np.float32(np.nan).tobytes()
    else:
        data[len(data) // 2] ^= 0x55
    return bytes(data)


CHECKED = [("OGG", "OPUS"), ("OGG", "VORBIS"), ("FLAC", "PCM_16"), ("WAV", "FLOAT")]


@pytest.mark.parametrize(("container", "subtype"), CHECKED)
def test_a_damaged_recording_is_not_copied(container, subtype):
    with pytest.raises(AudioError):
        encoded(damaged(container, subtype), COPY)


def test_a_truncated_mp3_is_not_copied():
    with pytest.raises(AudioError, match="truncated"):
        encoded(recording("MP3", "MPEG_LAYER_III")[:-100], COPY)


@pytest.mark.parametrize("rate_hz", [8_000, 12_000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_opus_has_the_length_and_the_place_of_the_source(rate_hz, channels):
    sound = music(rate_hz + 17, channels, rate_hz)
    (sample,) = encoded(file_of(sound, rate_hz=rate_hz), OPUS)
    samples, rate = decode(sample.payload)
    assert (samples.shape, rate) == ((channels, rate_hz + 17), rate_hz)
    assert (sample.num_frames, sample.extension) == (rate_hz + 17, "opus")
    offsets = range(-40, 41)
    middle = slice(rate_hz // 2, rate_hz // 2 + 2_000)
    agreement = [float(np.dot(samples[0, middle.start + d : middle.stop + d], sound[middle, 0])) for d in offsets]
    assert abs(offsets[int(np.argmax(agreement))]) <= 1


def test_opus_resamples_to_the_wanted_rate():
    (sample,) = encoded(file_of(music(44_100), rate_hz=44_100), replace(OPUS, sample_rate_hz=24_000))
    assert (sample.sample_rate_hz, sample.num_frames) == (24_000, 24_000)
    assert decode(sample.payload)[0].shape == (1, 24_000)


def test_opus_of_another_rate_is_rejected_with_the_key_to_set():
    with pytest.raises(AudioError, match=r"44100 Hz: set audio.sample_rate to one of 8000, 12000") as caught:
        encoded(file_of(music(500), rate_hz=44_100), OPUS)
    assert caught.value.reason == "unsupported"


def test_opus_of_many_channels_is_rejected():
    with pytest.raises(AudioError, match=r"6 channels, Opus holds 1 or 2 here: set audio.num_channels to 1"):
        encoded(file_of(music(500, 6), rate_hz=48_000), OPUS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"codec": "opus", "sample_rate_hz": 44_100}, "audio.sample_rate: Opus has 8000, "),
        ({"codec": "opus", "num_channels": 6}, "audio.num_channels: Opus has 1 or 2"),
        ({"codec": "opus", "bits_per_sample": 16}, "audio.bits_per_sample: Opus has no bit depth"),
        ({"codec": "opus", "bitrate": 64}, "audio.bitrate: expected 6000 to 256000 bits per second for each channel"),
        ({"codec": "copy", "bitrate": 64_000}, "audio.bitrate: for codec opus only"),
        ({"bitrate": 64_000}, "audio.bitrate: for codec opus only"),
        ({"codec": "mp3"}, "audio.codec: expected flac, opus, copy, found 'mp3'"),
    ],
)
def test_settings_that_a_codec_does_not_have_are_errors(settings, message):
    with pytest.raises(ConfigError, match=message):
        AudioFormat(**settings)


@pytest.mark.medium
def test_the_bit_rate_decides_the_size():
    noise = np.random.default_rng(0).normal(size=(48_000 * 2, 1)) * 0.2
    data = file_of(noise, rate_hz=48_000)
    sizes = [encoded(data, replace(OPUS, bitrate=rate))[0].num_bytes * 8 / 2 for rate in (24_000, 64_000, 128_000)]
    assert sizes == sorted(sizes)
    assert sizes[1] == pytest.approx(64_000, rel=0.25)
    assert encoded(data, OPUS)[0].num_bytes * 8 / 2 == sizes[1]


_ENCODE = """
import sys
from tests.audio.test_codecs import opus_stream
sys.stdout.buffer.write(opus_stream("my-key"))
"""


def opus_stream(key):
    (sample,) = encoded(file_of(music(20_000, 2, 48_000), rate_hz=48_000), OPUS)
    return with_serial(sample.payload, key)


@pytest.mark.medium
def test_two_processes_write_the_same_opus():
    other = subprocess.run([sys.executable, "-c", _ENCODE], capture_output=True, check=True)
    assert other.stdout == opus_stream("my-key")


def test_the_serial_number_of_an_opus_stream_is_that_of_its_sample():
    one, other = opus_stream("one"), opus_stream("other")
    assert one[14:18] == hashlib.sha256(b"one").digest()[:4][::-1]
    assert one != other
    assert np.array_equal(decode(one)[0], decode(other)[0])  # `decode` compares the checksum of each page
    assert with_serial(other, "one") == one
    file = io.BytesIO(other)
    assert with_serial(file, "one").read() == one


def test_another_encoder_is_another_codec_version():
    assert "libopus" in codec_version(Codec.OPUS)
    assert "libFLAC" in codec_version(Codec.FLAC) == codec_version()


PARTS = [(0, 100), (1, 1), (700, 2_000), (8_999, 1), (4_608, 1_152), (0, 9_000), (5_000, 0)]


@pytest.mark.parametrize(("container", "subtype"), FORMATS)
def test_a_part_equals_the_same_part_of_the_whole(container, subtype):
    data = recording(container, subtype)
    whole, _ = decode(data)
    assert whole.shape[1] >= 9_000
    for start, count in PARTS:
        part = np.empty((2, count), np.float32)
        decode_into(data, part, start)
        assert np.array_equal(part, whole[:, start : start + count]), (start, count)


def test_a_part_outside_of_the_file_is_an_error():
    data = recording("OGG", "VORBIS")
    for start, count, channels in ((8_999, 2, 2), (-1, 1, 2), (0, 10, 1)):
        with pytest.raises(ValueError, match="frames"):
            decode_into(data, np.empty((channels, count), np.float32), start)


def test_facts_are_read_before_anything_is_decoded():
    for container, subtype in KEPT:
        data = recording(container, subtype)
        with open_encoded(data) as audio:
            assert audio.info == probed(data)


def test_planned_bytes_follow_from_what_is_written():
    info = AudioInfo("WAV", "PCM_24", 1_000, 48_000, 2, 24)
    whole, half = Segment(0, 0, 1_000), Segment(0, 0, 500)
    assert planned_bytes(info, AudioFormat(), whole, 9_999) == 1_000 * 2 * 3
    assert planned_bytes(info, AudioFormat(num_channels=1, bits_per_sample=16), half, 9_999) == 500 * 2
    assert planned_bytes(info, COPY, whole, 9_999) == 9_999
    assert planned_bytes(info, COPY, half, 9_999) == 500 * 2 * 3
    assert planned_bytes(info, OPUS, Segment(0, 0, 48_000), 1) == 2 * 64_000 // 8


def test_silence_of_every_length_survives_opus():
    for num_frames in itertools.chain(range(1, 4), (959, 960, 961, 2_880)):
        (sample,) = encoded(file_of(np.zeros((num_frames, 1)), rate_hz=48_000), OPUS)
        assert decode(sample.payload)[0].shape == (1, num_frames)
