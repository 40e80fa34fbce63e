"""Encoders of every kind, for the contract suite."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headrace import encoders
from headrace.encoders import Encoder
from tests.encoders.tiny_models import MODELS, save

WITHOUT_FILES: dict[str, tuple[str, Mapping[str, object]]] = {
    "log_mel": ("log_mel", {"num_mels": 24}),
    "crepe": ("crepe", {"hop_seconds": 0.05}),
    "custom": ("custom", {"encoder": "tests.encoders.custom_encoder:Loudness", "hop_seconds": 0.01}),
}
NAMES = [*WITHOUT_FILES, *MODELS]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model, saved on first use."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@pytest.fixture(scope="session", params=NAMES)
def kind_and_settings(
    request: pytest.FixtureRequest, model_folder: Callable[[str], Path]
) -> tuple[str, dict[str, object]]:
    """What a YAML entry would say of each encoder."""
    if request.param in WITHOUT_FILES:
        kind, settings = WITHOUT_FILES[request.param]
        return kind, dict(settings)
    return "transformers", {"model": str(model_folder(request.param))}


@pytest.fixture(scope="session")
def encoder(kind_and_settings: tuple[str, dict[str, object]]) -> Encoder:
    """Each encoder, on the CPU."""
    return encoders.load(*kind_and_settings)
