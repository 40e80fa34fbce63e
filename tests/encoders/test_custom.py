"""Users' own encoders: found by name, refused with the reason."""

import subprocess
import sys

import pytest

from headrace import encoders
from headrace.errors import ConfigError

NAME = "tests.encoders.custom_encoder:Loudness"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "module:Class"),
        ({"encoder": "Loudness"}, "module:Class"),
        ({"encoder": "no.such.module:Loudness"}, "PYTHONPATH"),
        ({"encoder": "tests.encoders.custom_encoder:Quietness"}, "Quietness"),
        ({"encoder": "tests.encoders.custom_encoder:functional"}, "callable"),
        ({"encoder": NAME, "volume": 3}, "volume"),
    ],
)
def test_wrong_names_and_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encoders.load("custom", settings)


def test_the_fingerprint_follows_the_users_own() -> None:
    first = encoders.fingerprint("custom", {"encoder": NAME})
    assert encoders.fingerprint("custom", {"encoder": NAME, "hop_seconds": 0.01}) != first


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="crepe, custom, log_mel, transformers"):
        encoders.load("mystery", {})


def test_fingerprints_are_computed_without_torch() -> None:
    """So that finding out what is stale takes no time."""
    code = "import sys; from headrace import encoders, latents; encoders.fingerprint('crepe', {})"
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
