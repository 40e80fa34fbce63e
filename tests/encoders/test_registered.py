"""Kinds of encoders that other packages register by entry points."""

from importlib.metadata import EntryPoint

import pytest

from headrace import encoders
from headrace.config.dataset import load_config
from headrace.errors import ConfigError

LOUDNESS = "tests.support.custom_encoder:Loudness"


@pytest.fixture
def register(monkeypatch):
    """Registers kinds by name → `module:Class`, as installed packages do."""

    def registered(**kinds):
        points = [EntryPoint(name, value, encoders.GROUP) for name, value in kinds.items()]

        def entry_points(*, group, name=None):
            assert group == "headrace.encoders"
            return [point for point in points if name in {None, point.name}]

        monkeypatch.setattr(encoders, "entry_points", entry_points)

    return registered


def config(folder, encoder):
    path = folder / "birds.yaml"
    path.write_text(f"source: {{uri: x}}\noutput: {{uri: out}}\nlatents:\n  - {{name: levels, encoder: {encoder}}}\n")
    return load_config(path)


def test_a_registered_class_is_a_kind_and_equal_to_the_custom_encoder(register, tmp_path):
    register(loudness=LOUDNESS)
    (latents,) = config(tmp_path, "{kind: loudness, hop_seconds: 0.02}").latents
    assert latents.encoder.settings == {"hop_seconds": 0.02}
    own = {"encoder": LOUDNESS, "hop_seconds": 0.02}
    assert encoders.load("loudness", {"hop_seconds": 0.02}).hop == encoders.load("custom", own).hop
    assert encoders.fingerprint("loudness", {"hop_seconds": 0.02}) == encoders.fingerprint("custom", own)
    assert "loudness" in encoders.kind_names()


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("no_such_module:Loudness", "no_such_module"),
        ("tests.support.custom_encoder:Nothing", "Nothing"),
    ],
)
def test_what_cannot_be_imported_is_an_error_that_names_it(register, place, said):
    register(loudness=place)
    with pytest.raises(ConfigError, match=said):
        encoders.load("loudness", {})


def test_an_unknown_kind_lists_those_of_packages_too(register, tmp_path):
    register(loudness=LOUDNESS)
    with pytest.raises(ConfigError, match=r"crepe, custom, .*loudness, onnx, "):
        encoders.load("loud", {})
    with pytest.raises(ConfigError, match=r"expected one of crepe, .*loudness"):
        config(tmp_path, "{kind: loud}")
