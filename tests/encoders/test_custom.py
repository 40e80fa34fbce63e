"""Encoders written by users: found by name, or rejected with a reason."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace import encoders
from headrace.errors import ConfigError

NAME = "tests.support.custom_encoder:Loudness"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "module:Class"),
        ({"encoder": "Loudness"}, "module:Class"),
        ({"encoder": "no.such.module:Loudness"}, "PYTHONPATH"),
        ({"encoder": "tests.support.custom_encoder:Quietness"}, "Quietness"),
        ({"encoder": "tests.support.custom_encoder:functional"}, "callable"),
        ({"encoder": NAME, "volume": 3}, "'volume'; it takes device, hop_seconds$"),
    ],
)
def test_invalid_names_and_settings_are_an_error(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encoders.load("custom", settings)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class Own(:", "importing it raised SyntaxError: "),
        ("raise RuntimeError('no licence')", "importing it raised RuntimeError: no licence"),
        ("class Own(Loudness):\n def __init__(self, device): raise OSError('no weights')", "OSError: no weights"),
        ("class Own(Loudness):\n fingerprint = property(lambda self: {}['v'])", "loading it raised KeyError: 'v'"),
        ("class Own(Loudness):\n @classmethod\n def fingerprint_of(cls, own): return own['v']", "its fingerprint_of"),
        ("class Own(Loudness):\n fingerprint = None", "lacks fingerprint"),
        ("class Own(Loudness):\n hop = property(lambda self: 0, lambda self, hop: 0)", "hop must be .* found 0"),
        ("class Own(Loudness):\n num_channels = 1.5", "num_channels must be a whole number .* found 1.5"),
        ("class Own(Loudness):\n info = {'context': 3}", "info must be .*EncoderInfo, found dict"),
        ("class Own(Loudness):\n def __init__(self, size): pass", "'device'; it takes size$|'size'; it takes size$"),
    ],
)
def test_code_that_cannot_be_loaded_is_a_config_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    """The fingerprint, which is computed before anything is built, raises the error."""
    (tmp_path / "own_encoder.py").write_text(f"from tests.support.custom_encoder import Loudness\n{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_encoder", raising=False)
    with pytest.raises(ConfigError, match=f"own_encoder:Own.*({message})") as caught:
        encoders.fingerprint("custom", {"encoder": "own_encoder:Own"})
    assert " raised " not in str(caught.value) or caught.value.__cause__ is not None


def test_the_fingerprint_depends_on_the_users_fingerprint() -> None:
    first = encoders.fingerprint("custom", {"encoder": NAME})
    assert encoders.fingerprint("custom", {"encoder": NAME, "hop_seconds": 0.01}) != first


def test_the_error_about_an_unknown_kind_names_the_known_kinds() -> None:
    with pytest.raises(ConfigError, match="crepe, custom, fbank, kmeans, log_mel, onnx, text, transformers"):
        encoders.load("mystery", {})


@pytest.mark.medium
def test_fingerprints_are_computed_without_torch() -> None:
    """Finding stale partitions is then fast."""
    code = (
        "import sys; import headrace.assemble.latents; from headrace import encoders; encoders.fingerprint('crepe', {})"
    )
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("hop_seconds", [0.01, 1.0, 10.0, 60.0])
def test_a_long_hop_makes_the_default_window_longer(hop_seconds: float) -> None:
    encoder = encoders.load("custom", {"encoder": NAME, "hop_seconds": hop_seconds})
    info, hop = encoder.info, encoder.hop
    assert info.window >= max(30 * encoder.sample_rate_hz, 2 * info.overlap)
    assert info.window % hop == info.overlap % hop == 0
    assert info.overlap > 2 * info.context
