"""The wanted format of audio, and what is stored in a shard for each kind of source."""

import pytest

from headrace.audio.forms import AudioFormat, AudioInfo, Codec, Segment, Span, bits_of_subtype
from headrace.errors import ConfigError


def info(subtype, bits):
    return AudioInfo("WAV", subtype, 100, 44_100, 2, bits)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"codec": "mp3"}, "audio.codec: expected flac, opus, copy, found 'mp3'"),
        ({"sample_rate_hz": 0}, "audio.sample_rate: expected 1 to 655350 or null, found 0"),
        ({"num_channels": 9}, "audio.num_channels: expected 1 to 8 or null, found 9"),
        ({"bits_per_sample": 20}, "audio.bits_per_sample: expected 16, 24 or null, found 20"),
        ({"compression_level": 9}, "audio.compression_level: expected 0 to 8, found 9"),
        ({"segment_seconds": float("inf")}, "audio.segment_seconds: expected a positive number or null, found inf"),
        ({"last_segment": "pad"}, "audio.last_segment: expected keep or drop, found 'pad'"),
        ({"codec": "opus", "sample_rate_hz": 44_100}, "audio.sample_rate: Opus has 8000, 12000"),
        ({"codec": "opus", "num_channels": 3}, "audio.num_channels: Opus has 1 or 2, found 3"),
        ({"codec": "opus", "bits_per_sample": 16}, "audio.bits_per_sample: Opus has no bit depth"),
        ({"bitrate": 64_000}, "audio.bitrate: for codec opus only"),
        ({"codec": "opus", "bitrate": 5_999}, "audio.bitrate: expected 6000 to 256000"),
    ],
)
def test_a_value_that_the_codec_does_not_have_is_an_error_that_names_its_key(settings, message):
    with pytest.raises(ConfigError) as error:
        AudioFormat(**settings)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("subtype", "bits", "stored"),
    [("PCM_16", 16, 16), ("PCM_24", 24, 24), ("PCM_32", 32, 24), ("FLOAT", 32, 24), ("VORBIS", None, 16)],
)
def test_a_shard_has_the_bits_that_are_enough_for_the_source(subtype, bits, stored):
    assert bits_of_subtype(subtype) == bits
    assert AudioFormat().output_bits(info(subtype, bits)) == stored
    assert AudioFormat(bits_per_sample=16).output_bits(info(subtype, bits)) == 16


def test_a_format_without_values_keeps_those_of_the_source():
    assert AudioFormat().output_rate_hz(44_100) == 44_100
    assert AudioFormat().output_channels(info("PCM_16", 16)) == 2
    assert AudioFormat(sample_rate_hz=16_000, num_channels=1).output_rate_hz(44_100) == 16_000
    assert AudioFormat(sample_rate_hz=16_000, num_channels=1).output_channels(info("PCM_16", 16)) == 1


def test_only_opus_has_a_bit_rate_in_the_digested_settings():
    assert AudioFormat().canonical()["bitrate"] is None
    assert AudioFormat(codec=Codec.OPUS).canonical()["bitrate"] == 64_000


def test_seeks_are_exact_and_values_may_be_infinite_where_the_coding_says_so():
    assert [info(name, None).has_exact_seek for name in ("PCM_16", "DOUBLE", "VORBIS")] == [True, True, False]
    assert [info(name, None).is_float for name in ("PCM_16", "DOUBLE", "VORBIS")] == [False, True, False]


def test_segments_and_spans_know_where_they_end_and_how_long_they_are():
    assert Segment(index=2, start_frame=20, num_frames=10).stop_frame == 30
    assert Span(start_frame=20, stop_frame=25).num_frames == 5
