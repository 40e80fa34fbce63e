"""Speech by a tiny model of silero's form, and by silero's own package where it is installed."""

import importlib.util
import sys

import numpy as np
import pytest

from headrace import features
from headrace.errors import ConfigError
from headrace.features import speech
from headrace.features.speech_intervals import SpeechRule, speech_intervals
from tests.support.onnx_models import QUALITY, SPEECH, WHOLE

TINY = {"file": str(SPEECH), "padding_seconds": 0}
needs_silero = pytest.mark.skipif(importlib.util.find_spec("silero_vad") is None, reason="needs silero-vad")


def _audio(*levels: float) -> np.ndarray:
    """A level for each chunk of 512 frames: the tiny model's probability is the largest of its frames and 64 before."""
    return np.repeat(np.array(levels, np.float32), 512)[None]


def test_the_share_and_the_intervals_are_those_of_the_rule():
    audio = _audio(0, 0, *[0.9] * 20, *[0] * 10)[:, :-100]
    found = features.load("speech", TINY).measure(audio, 16_000)
    (one,) = found["speech"]
    assert one == {"start": 2 * 512 / 16_000, "end": 23 * 512 / 16_000}  # the context reaches into the next chunk
    assert found["speech_share"] == 21 * 512 / audio.shape[1]


def test_silence_has_no_intervals():
    assert features.load("speech", TINY).measure(_audio(0, 0, 0), 16_000) == {"speech_share": 0, "speech": []}


def test_the_states_go_on_through_a_recording(monkeypatch):
    """The tiny model divides by the number of its calls."""
    monkeypatch.setattr(speech, "_CHUNKS_AT_ONCE", 2)
    loaded = features.load("speech", TINY)
    assert np.allclose(loaded.probabilities(_audio(0.6, 0.6, 0.6, 0.6, 0.6)[0]), [0.6, 0.6, 0.3, 0.3, 0.2])
    assert np.allclose(loaded.probabilities(_audio(0.6)[0]), [0.6])


def test_the_fingerprint_is_of_content_and_settings(tmp_path):
    same = tmp_path / "same.onnx"
    same.write_bytes(SPEECH.read_bytes())
    own = features.fingerprint("speech", TINY)
    assert features.fingerprint("speech", {**TINY, "file": str(same)}) == own
    same.write_bytes(SPEECH.read_bytes() + b"\0")
    assert features.fingerprint("speech", {**TINY, "file": str(same)}) != own
    for changed in ("threshold", "min_speech_seconds", "min_silence_seconds", "padding_seconds"):
        assert features.fingerprint("speech", {**TINY, changed: 0.2}) != own


WRONG = {
    "a setting": ({"treshold": 0.5}, "feature speech: unknown setting 'treshold'; the settings are: file, threshold"),
    "a threshold": ({"threshold": 1.5}, "feature speech: threshold: .*found 1.5"),
    "a length": ({"padding_seconds": -1}, "feature speech: padding_seconds: .*found -1"),
    "a file": ({"file": "none.onnx"}, "feature speech: file: no such file: none.onnx"),
    "a package": ({"file": "no_such_package:a.onnx"}, "no_such_package is not installed; .*pip install --no-deps"),
    "another model": ({"file": str(WHOLE)}, "expected audio of .chunks, 576. and two states"),
    "a model of another form": ({"file": str(QUALITY)}, "quality.onnx takes inputs of"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises((ConfigError, ImportError), match=words):
        features.load("speech", {**TINY, **settings})


@pytest.fixture
def imports_forgotten():
    """Other tests assert that the package is not imported."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "silero_vad"]:
        del sys.modules[name]


def _voice(seconds: float) -> np.ndarray:
    """Harmonics of a gliding pitch under three gliding formants, in syllables; silero takes it for speech."""
    time = np.arange(round(16_000 * seconds)) / 16_000
    pitch, first, second = (
        middle + reach * np.sin(2 * np.pi * rate * time)
        for middle, reach, rate in ((120, 20, 0.7), (500, 250, 2.3), (1500, 500, 1.7))
    )
    phase, total = 2 * np.pi * np.cumsum(pitch) / 16_000, np.zeros_like(time)
    for number in range(1, 30):
        formants = ((first, 150, 1.0), (second, 200, 0.5), (2500, 300, 0.1))
        total += np.sin(number * phase) * sum(
            weight * np.exp(-(((number * pitch - middle) / width) ** 2)) for middle, width, weight in formants
        )
    return 0.2 * total * (np.sin(6 * np.pi * time) > -0.3)


@needs_silero
@pytest.mark.usefixtures("imports_forgotten")
def test_intervals_are_those_of_silero_itself():
    """The rule on random probabilities, and the model on a voice: `get_speech_timestamps` with its defaults."""
    import torch
    from silero_vad import get_speech_timestamps, get_speech_timestamps_from_probs, load_silero_vad

    rng = np.random.default_rng(0)
    for _ in range(300):
        steps = np.cumsum(rng.normal(0, 0.3, rng.integers(1, 200))) % 2 - 0.5
        told, num_frames = np.clip(steps, 0, 1).tolist(), int(len(steps) * 512 - rng.integers(0, 512))
        lengths = [int(rng.choice(choices)) for choices in ((0, 250, 500), (0, 32, 100, 300), (0, 30, 33, 200))]
        names = ("min_speech_duration_ms", "min_silence_duration_ms", "speech_pad_ms")
        expected = get_speech_timestamps_from_probs(
            told, audio_length_samples=num_frames, **dict(zip(names, lengths, strict=True))
        )
        rule = SpeechRule(512, 0.5, *(16 * length for length in lengths))
        assert speech_intervals(told, num_frames, rule) == [(one["start"], one["end"]) for one in expected]
    audio = np.concatenate([_voice(1.5), np.zeros(9000), _voice(3.0), np.zeros(20_000), _voice(0.7)]).astype(np.float32)
    expected = get_speech_timestamps(torch.from_numpy(audio), load_silero_vad(onnx=True))
    found = features.load("speech", {}).measure(audio[None], 16_000)["speech"]
    assert found == [{name: one[name] / 16_000 for name in ("start", "end")} for one in expected]
    assert len(found) >= 3
