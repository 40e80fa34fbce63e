"""Features of the user: functions and classes with declared columns."""

import numpy as np
import pytest

from headrace import features
from headrace.errors import BuildError, ConfigError

AUDIO = np.full((2, 100), 0.25, np.float32)


def facts(audio, sample_rate_hz):
    values = {"level": np.abs(audio).max(), "rate": np.int64(sample_rate_hz), "loud": np.bool_(True)}
    return {**values, "word": "a", "both": [1, {"b": 2}], "spans": [{"start": 0, "end": np.float64(1), "label": "x"}]}


facts.columns = {
    "level": "float", "rate": "int", "loud": "bool", "word": "text", "both": "json", "spans": "intervals"
}  # fmt: skip
facts.fingerprint = "1"


class Gain:
    columns, fingerprint, sample_rate_hz, num_channels = {"level": "float"}, "1", 16_000, 1

    def __init__(self, gain=1.0):
        self.gain = gain

    def __call__(self, audio, sample_rate_hz):
        return {"level": self.gain * float(audio.max())}


class Silent:
    columns, fingerprint = {"level": "float"}, "1"


def without_fingerprint(audio, sample_rate_hz):
    """A function without the attributes."""


without_fingerprint.columns = {"level": "float"}


def without_columns(audio, sample_rate_hz):
    """A function without the attributes."""


def setting(name, **more):
    return {"feature": f"tests.features.test_custom:{name}", **more}


def test_a_function_gives_values_of_every_type():
    loaded = features.load("custom", setting("facts"))
    spans = [{"start": 0.0, "end": 1.0, "label": "x"}]
    expected = {"level": 0.25, "rate": 8000, "loud": True, "word": "a", "both": [1, {"b": 2}], "spans": spans}
    found = loaded.measure(AUDIO, 8000)
    assert found == expected
    assert [type(value) for value in found.values()] == [float, int, bool, str, list, list]
    assert (loaded.sample_rate_hz, loaded.num_channels, loaded.is_concurrent) == (None, None, False)


def test_a_class_is_called_with_the_other_settings():
    loaded = features.load("custom", setting("Gain", gain=4))
    assert loaded.measure(AUDIO, 16_000) == {"level": 1.0}
    assert (loaded.sample_rate_hz, loaded.num_channels) == (16_000, 1)


def test_the_fingerprint_is_of_name_text_columns_and_settings(monkeypatch):
    def own(*, gain=1):
        return features.fingerprint("custom", setting("Gain", gain=gain))

    first = own()
    assert own() == first
    assert len({first, own(gain=2), features.fingerprint("custom", setting("facts"))}) == 3
    monkeypatch.setattr(Gain, "fingerprint", "2")
    second = own()
    monkeypatch.setattr(Gain, "columns", {"level": "int"})
    assert len({first, second, own()}) == 3


RETURNS = {
    "another column": ({"other": 1}, "returned other; expected its columns level"),
    "nothing": ({}, "returned nothing; expected its columns level"),
    "no dict": (3, "raised TypeError: 'int' object is not iterable"),
    "text": ({"level": "high"}, "column level: expected float, found 'high'"),
}


@pytest.mark.parametrize(("value", "words"), RETURNS.values(), ids=RETURNS)
def test_results_that_do_not_fit_are_named(value, words, monkeypatch):
    monkeypatch.setattr(Gain, "__call__", lambda *_: value)
    with pytest.raises(BuildError, match=words):
        features.load("custom", setting("Gain")).measure(AUDIO, 16_000)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", "1.5"), ("float", True),
        ("int", 1.5), ("bool", 1), ("text", b"a"), ("json", "a"), ("json", [float("nan")]), ("json", [object()]),
        ("intervals", [{"start": 2, "end": 1}]), ("intervals", [{"start": 0}]),
        ("intervals", [{"start": -1, "end": 1}]),
        ("intervals", [{"start": 0, "end": float("inf")}]), ("intervals", 3),
        ("int", True), ("int", float("inf")), ("int", 2**63), ("float", 10**400),
        ("text", "\ud800"), ("json", ["\ud800"]), ("intervals", [{"start": 0, "end": 1, "label": "\ud800"}]),
    ],
)  # fmt: skip
def test_values_of_another_type_are_errors(kind, value, monkeypatch):
    monkeypatch.setattr(Gain, "columns", {"level": kind})
    monkeypatch.setattr(Gain, "__call__", lambda *_: {"level": value})
    with pytest.raises(BuildError, match=f"column level: expected {kind}, found"):
        features.load("custom", setting("Gain")).measure(AUDIO, 16_000)
    monkeypatch.setattr(Gain, "__call__", lambda *_: {"level": None})
    assert features.load("custom", setting("Gain")).measure(AUDIO, 16_000) == {"level": None}


WRONG = {
    "no object": ({}, 'feature must be "module:object", found None'),
    "no module": ({"feature": "Gain"}, "feature must be \"module:object\", found 'Gain'"),
    "an absent module": ({"feature": "no_such_module:x"}, "raised ModuleNotFoundError.*on PYTHONPATH"),
    "an absent object": (setting("absent"), "raised AttributeError"),
    "settings of a function": (setting("facts", gain=1), "is no class, so it takes no settings; remove gain"),
    "unknown settings": (setting("Gain", loud=1), "calling it raised TypeError"),
    "no columns": (setting("without_columns"), "needs an attribute columns, name → float, int, .*found None"),
    "no call": (setting("Silent"), "cannot be called with audio; give its class __call__"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_the_users_object_is_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        features.load("custom", settings)


def test_a_fingerprint_is_needed():
    with pytest.raises(ConfigError, match="needs an attribute fingerprint, a text, found None"):
        features.fingerprint("custom", setting("without_fingerprint"))
