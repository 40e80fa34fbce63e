"""Segment arithmetic: lengths, gaps and the windows that resampling reads."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.audio import AudioFormat, Segment, plan_segments
from headrace.audio.segments import CONTEXT_FRAMES, resampled_length, resampling_window
from headrace.errors import ConfigError

rates = st.sampled_from([8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 44_099])


def test_without_segment_seconds_one_segment_covers_the_recording():
    assert plan_segments(12_345, 44_100, AudioFormat()) == (Segment(0, 0, 12_345),)


def test_segments_are_counted_at_the_shards_rate():
    planned = plan_segments(44_100, 44_100, AudioFormat(sample_rate_hz=16_000, segment_seconds=0.5))
    assert planned == (Segment(0, 0, 8_000), Segment(1, 8_000, 8_000))


def test_a_recording_shorter_than_a_segment_gives_one_or_none():
    assert plan_segments(10, 100, AudioFormat(segment_seconds=1)) == (Segment(0, 0, 10),)
    assert plan_segments(10, 100, AudioFormat(segment_seconds=1, last_segment="drop")) == ()


def test_a_recording_too_short_for_a_frame_gives_none():
    assert plan_segments(1, 48_000, AudioFormat(sample_rate_hz=8_000)) == ()


def test_a_segment_shorter_than_a_frame_is_refused():
    with pytest.raises(ConfigError, match="segment_seconds"):
        plan_segments(100, 100, AudioFormat(segment_seconds=0.001))


@pytest.mark.medium
@given(st.integers(0, 10**9), rates, rates)
def test_resampled_length_is_the_exact_quotient_rounded_half_up(num_frames, source, rate):
    assert resampled_length(num_frames, source, rate) == int(Fraction(num_frames * rate, source) + Fraction(1, 2))


@given(
    st.integers(0, 10**6), rates, rates, st.one_of(st.none(), st.floats(0.05, 100)), st.sampled_from(["keep", "drop"])
)
def test_segments_leave_no_gap_and_lose_at_most_the_dropped_part(num_frames, source, rate, seconds, last):
    wanted = AudioFormat(sample_rate_hz=rate, segment_seconds=seconds, last_segment=last)
    planned = plan_segments(num_frames, source, wanted)
    total = resampled_length(num_frames, source, rate)
    stops = [0, *(s.stop_frame for s in planned)]
    assert [s.start_frame for s in planned] == stops[:-1]
    assert [s.index for s in planned] == list(range(len(planned)))
    assert all(s.num_frames > 0 for s in planned)
    assert stops[-1] == total or (last == "drop" and total - stops[-1] < round((seconds or 0) * rate))


@given(st.integers(0, 10**8), st.integers(1, 10**6), rates, rates)
def test_windows_start_on_the_output_grid_and_hold_the_context(start, length, source, rate):
    window = resampling_window(Segment(0, start, length), source, rate)
    output_start = Fraction(window.start_frame * rate, source)
    assert output_start.denominator == 1
    assert output_start + window.skip_frames == start
    context = Fraction(CONTEXT_FRAMES * source, min(source, rate))
    assert window.start_frame == 0 or window.start_frame <= Fraction(start * source, rate) - context + 1
    assert window.stop_frame >= Fraction((start + length) * source, rate) + context


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("sample_rate_hz", 0),
        ("num_channels", 9),
        ("bits_per_sample", 20),
        ("compression_level", 9),
        ("segment_seconds", 0.0),
        ("segment_seconds", float("nan")),
        ("last_segment", "pad"),
    ],
)
def test_a_form_that_flac_cannot_hold_is_refused_by_its_yaml_key(setting, value):
    with pytest.raises(ConfigError, match="audio." + setting.removesuffix("_hz")):
        AudioFormat(**{setting: value})


def test_canonical_forms_are_equal_where_the_audio_is():
    assert AudioFormat(segment_seconds=5).canonical() == AudioFormat(segment_seconds=5.0).canonical()
