"""Scores by a tiny model of DNSMOS's form, and by the model itself where speechmos is installed."""

import importlib.util
import sys

import numpy as np
import pytest

from headrace import features
from headrace.encoders import weights
from headrace.errors import ConfigError
from headrace.features.quality import segments_of
from tests.support.onnx_models import QUALITY, SPEECH
from tests.support.tiny_codecs import noisy_tones

TINY = {"file": str(QUALITY)}
CURVES = {
    "mos_sig": [-0.08397278, 1.22083953, 0.0052439],
    "mos_bak": [-0.13166888, 1.60915514, -0.39604546],
    "mos_ovr": [-0.06766283, 1.11546468, 0.04602535],
}
needs_speechmos = pytest.mark.skipif(importlib.util.find_spec("speechmos") is None, reason="needs speechmos")


def test_scores_are_means_over_segments_after_the_curves():
    audio = noisy_tones(192_500, 0).numpy()  # 12.03 s: segments at 0, 1 and 2 s
    found = features.load("quality", TINY).measure(audio[None], 16_000)
    levels = [np.abs(audio[start : start + 144_160]).mean() for start in (0, 16_000, 32_000)]
    for factor, (name, curve) in enumerate(CURVES.items(), start=1):
        assert found[name] == pytest.approx(np.mean([np.polyval(curve, factor * level) for level in levels]), abs=1e-5)


def test_short_recordings_are_doubled_and_hops_are_a_setting():
    ramp = np.arange(1, 40_001, dtype=np.float32)
    (one,) = segments_of(ramp, 16_000)  # doubled twice: 160,000 frames, 10 whole seconds, but 9.01 s from 1 s are not
    assert np.array_equal(one, np.tile(ramp, 4)[:144_160])
    assert len(segments_of(np.zeros(144_160, np.float32), 16_000)) == 1
    assert len(segments_of(np.zeros(480_000, np.float32), 16_000)) == 21
    assert len(segments_of(np.zeros(480_000, np.float32), 48_000)) == 7
    hops = [features.load("quality", {**TINY, **more}) for more in ({}, {"hop_seconds": 3})]
    first, second = (one.measure(noisy_tones(300_000, 0).numpy()[None], 16_000)["mos_sig"] for one in hops)
    assert first != second


def test_an_empty_sample_has_no_scores():
    assert set(features.load("quality", TINY).measure(np.zeros((1, 0), np.float32), 16_000).values()) == {None}


def test_the_fingerprint_is_of_content_and_settings():
    own = features.fingerprint("quality", TINY)
    assert features.fingerprint("quality", {**TINY, "hop_seconds": 2}) != own
    assert features.fingerprint("quality", {"file": str(SPEECH)}) != own
    assert features.fingerprint("speech", TINY) != own


WRONG = {
    "a setting": ({"hop": 1}, "feature quality: unknown setting 'hop'; the settings are: file, hop_seconds"),
    "a hop": ({"hop_seconds": 0}, "feature quality: hop_seconds: .*found 0"),
    "a file": ({"file": "none.onnx"}, "feature quality: file: no such file: none.onnx"),
    "another model": ({"file": str(SPEECH)}, "expected .N, 144160. and .N, 3."),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        features.load("quality", {**TINY, **settings})


@pytest.mark.skipif(importlib.util.find_spec("speechmos") is not None, reason="speechmos is installed")
def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(ImportError, match=r"speechmos is not installed.*pip install --no-deps speechmos"):
        features.load("quality", {})


@needs_speechmos
def test_scores_are_those_of_the_model_for_the_repeated_recording():
    import onnxruntime

    audio = noisy_tones(80_000, 0).numpy()
    path = weights.packaged_file("speechmos", "dnsmos_models/sig_bak_ovr.onnx", "")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    ((*raw,),) = session.run(None, {"input_1": np.resize(audio, 144_160)[None]})[0]
    found = features.load("quality", {}).measure(audio[None], 16_000)
    for value, (name, curve) in zip(raw, CURVES.items(), strict=True):
        assert found[name] == pytest.approx(np.polyval(curve, value), abs=1e-5)
    assert "speechmos" not in sys.modules
