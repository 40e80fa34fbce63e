"""Settings of encoders: parsed, digested, and windows in PCM frames."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.encoders.settings import WindowSeconds, digest, fingerprint, parse
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    size: int
    rate: float = 0.5
    path: str = field(default="", metadata={"results": False})


def test_settings_are_converted_and_have_their_defaults():
    assert parse("mine", {"size": 3}, Settings) == Settings(3)
    assert parse("mine", {"size": 3, "rate": 2}, Settings) == Settings(3, 2.0)


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"size": 1, "colour": 2}, "unknown setting 'colour'; the settings are: size, rate, path"),
        ({}, "the setting 'size' is required and missing"),
        ({"size": 10**23}, "size: expected a whole number of at most 2147483647, found 1000"),
        ({"size": -(10**23)}, "size: expected a whole number of at most 2147483647, found -1000"),
        ({"size": "many"}, "size: expected a whole number, found 'many'"),
        ({"size": "many", "rate": "fast"}, "size: .*; rate: expected a number"),
        ({"size": 1, "rate": float("nan")}, "rate: expected a finite number"),
    ],
)
def test_invalid_settings_are_an_error_that_names_kind_and_setting(given_settings, message):
    with pytest.raises(ConfigError, match=f"encoder mine: .*{message}"):
        parse("mine", given_settings, Settings)


def test_a_fingerprint_covers_everything_that_changes_results():
    own = fingerprint("mine", 1, Settings(3), "weights")
    assert fingerprint("mine", 1, Settings(3, path="elsewhere"), "weights") == own
    others = [
        fingerprint("yours", 1, Settings(3), "weights"),
        fingerprint("mine", 2, Settings(3), "weights"),
        fingerprint("mine", 1, Settings(4), "weights"),
        fingerprint("mine", 1, Settings(3), "other weights"),
    ]
    assert len({own, *others}) == 5
    assert digest("ab", "c") != digest("a", "bc")


@pytest.mark.medium
@given(st.floats(0.01, 60), st.floats(0, 5), st.integers(1, 48_000), st.integers(1, 4000), st.integers(0, 20_000))
@settings(max_examples=40)
def test_windows_are_whole_hops_and_overlap_by_more_than_twice_the_context(seconds, overlap, rate, hop, context):
    cut = WindowSeconds(seconds, overlap)
    window, shared = cut.default_frames(rate, hop, context)
    assert window % hop == shared % hop == 0
    assert window >= 2 * shared > 4 * context
    try:
        assert cut.frames(rate, hop, context) == (window, shared)
    except ConfigError:
        assert seconds * rate < 2 * shared


def test_a_window_too_short_for_its_overlap_is_an_error_with_the_least_length():
    with pytest.raises(ConfigError, match=r"window_seconds 3 is too short for the overlap; use at least 4"):
        WindowSeconds(3.0, 2.0).frames(1000, 10, 0)
    assert WindowSeconds(4.0, 2.0).frames(1000, 10, 0) == (4000, 2000)


def test_settings_that_are_new_do_not_change_older_fingerprints():
    """Those of `output: hidden` are as they were before there were other outputs."""
    old = TransformersSettings("x", layer=3)
    assert fingerprint("transformers", 1, old, "w").startswith("044265b9ad755c35861fe8dead336921")
    assert fingerprint("a", 1, TransformersSettings("x", output="codes")) != fingerprint(
        "a", 1, TransformersSettings("x")
    )
