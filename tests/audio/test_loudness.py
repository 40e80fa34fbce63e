"""Levels of recordings, against the synthetic cases of EBU Tech 3341."""

import numpy as np
import pytest

from headrace.audio.loudness import k_filters, levels, loudness

RATE = 48_000


def _sine(seconds, dbfs, hz=1000, channels=2, rate=RATE, phase=0.0):  # noqa: PLR0913, PLR0917 - a signal's facts
    time = np.arange(round(seconds * rate)) / rate
    wave = 10 ** (dbfs / 20) * np.sin(2 * np.pi * hz * time + np.deg2rad(phase))
    return np.tile(wave, (channels, 1)).astype(np.float32)


def _parts(*parts):
    return np.concatenate([_sine(seconds, dbfs) for seconds, dbfs in parts], axis=1)


def _five():
    return np.concatenate([_sine(20, dbfs, channels=1) for dbfs in (-28, -28, -24, -30, -30)])


TECH_3341 = {
    "1": (lambda: _sine(20, -23), -23),
    "2": (lambda: _sine(20, -33), -33),
    "3": (lambda: _parts((10, -36), (60, -23), (10, -36)), -23),
    "4": (lambda: _parts((10, -72), (10, -36), (60, -23), (10, -36), (10, -72)), -23),
    "5": (lambda: _parts((20, -26), (20.1, -20), (20, -26)), -23),
    "6": (_five, -23),
}


@pytest.mark.medium
@pytest.mark.parametrize(("samples", "expected"), TECH_3341.values(), ids=TECH_3341)
def test_integrated_loudness_is_within_a_tenth_of_ebu_tech_3341(samples, expected):
    assert loudness(samples(), RATE) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 44_100, 96_000])
def test_other_rates_have_filters_of_their_own(rate):
    assert loudness(_sine(5, 0, 997, 1, rate), rate) == pytest.approx(-3.01, abs=0.1)


def test_filters_at_48_khz_are_those_of_the_standard():
    (shelf_b, shelf_a), (_, pass_a) = k_filters(48_000)
    assert shelf_b == pytest.approx([1.53512485958697, -2.69169618940638, 1.19839281085285], abs=1e-12)
    assert shelf_a == pytest.approx([1, -1.69065929318241, 0.73248077421585], abs=1e-12)
    assert pass_a == pytest.approx([1, -1.99004745483398, 0.99007225036621], abs=1e-12)


@pytest.mark.medium
def test_parts_of_a_long_recording_join_exactly():
    noise = np.random.default_rng(1).normal(0, 0.1, (1, 65 * 8000)).astype(np.float32)
    filtered = noise[0].astype(np.float64)
    for b, a in k_filters(8000):
        past, out = [0.0] * 4, np.empty_like(filtered)
        for i, x in enumerate(filtered):
            out[i] = b[0] * x + b[1] * past[0] + b[2] * past[1] - a[1] * past[2] - a[2] * past[3]
            past = [x, past[0], out[i], past[2]]
        filtered = out
    blocks = np.square(filtered).reshape(-1, 800).mean(1)
    expected = 10 * np.log10(np.convolve(blocks, np.ones(4) / 4, "valid").mean()) - 0.691
    assert loudness(noise, 8000) == pytest.approx(expected, abs=1e-6)


TRUE_PEAKS = {"15": (4, 0, 0.5), "16": (4, 45, 0.5), "17": (6, 60, 0.5), "18": (8, 67.5, 0.5), "19": (4, 45, 1.41)}


@pytest.mark.parametrize(("divisor", "phase", "size"), TRUE_PEAKS.values(), ids=TRUE_PEAKS)
def test_true_peaks_are_those_of_ebu_tech_3341(divisor, phase, size):
    """Within +0.2 and -0.4 dB; the last one exceeds full scale between its samples."""
    rise = np.clip(np.arange(RATE) / 480, 0, 1)
    samples = _sine(1, 20 * np.log10(size), RATE / divisor, 1, phase=phase) * (rise * rise[::-1]).astype(np.float32)
    found = levels(samples, RATE).true_peak_dbtp
    assert -0.4 <= found - 20 * np.log10(size) <= 0.2


def test_silence_and_short_recordings_have_no_loudness():
    silence = levels(np.zeros((2, RATE), np.float32), RATE)
    assert (silence.peak_dbfs, silence.true_peak_dbtp, silence.rms_dbfs, silence.loudness_lufs) == (None,) * 4
    assert (silence.silent_share, silence.clipped_share, silence.dc_offset) == (1.0, 0.0, 0.0)
    short = levels(_sine(0.39, -10), RATE)
    assert short.loudness_lufs is None
    assert short.peak_dbfs == pytest.approx(-10, abs=0.01)
    assert levels(_sine(0.00003, 0), RATE).silent_share in (0.0, 1.0)
    assert loudness(_sine(0.4, -10), RATE) == pytest.approx(-10, abs=0.1)


def test_flaws_are_shares_of_samples_and_blocks():
    samples = np.concatenate([_sine(1, -6, channels=1) + 0.25, np.zeros((1, RATE), np.float32)], axis=1)
    samples[0, :480] = 1.0
    found = levels(samples, RATE)
    assert found.clipped_share == pytest.approx(480 / 96_000)
    assert found.silent_share == pytest.approx(0.5)
    assert found.dc_offset == pytest.approx((480 + 0.25 * 47_520) / 96_000, abs=1e-3)
    assert levels(_sine(1, 0, channels=1), RATE).rms_dbfs == pytest.approx(-3.01, abs=0.01)
    both = np.concatenate([_sine(1, -20, channels=1) + 0.1, _sine(1, -20, channels=1) - 0.2])
    assert levels(both, RATE).dc_offset == pytest.approx(-0.2, abs=1e-3)
