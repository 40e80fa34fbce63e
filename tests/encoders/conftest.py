"""Encoders of every kind, for the contract suite."""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from headrace import encoders
from headrace.encoders import Encoder
from tests.support.tiny_codecs import save_codec
from tests.support.tiny_models import MODELS, save
from tests.support.tiny_texts import save_text

WITHOUT_FILES: dict[str, tuple[str, Mapping[str, object]]] = {
    "log_mel": ("log_mel", {"num_mels": 24}),
    "crepe": ("crepe", {"hop_seconds": 0.05}),
    "fbank": ("fbank", {"num_mels": 24}),
    "fbank_mirrored": ("fbank", {"snip_edges": False}),
    "custom": ("custom", {"encoder": "tests.support.custom_encoder:Loudness", "hop_seconds": 0.01}),
}
NAMES = [*WITHOUT_FILES, *MODELS]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that gives the folder of a tiny model, saved on first use."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@pytest.fixture(scope="session")
def codec_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that gives the folder of a tiny codec, or of `clap`, saved on first use."""
    return functools.cache(lambda name: save_codec(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each tiny text model."""
    return {name: save_text(name, tmp_path_factory.mktemp(name)) for name in ("bert", "t5", "clap", "static")}


@pytest.fixture(scope="session", autouse=True)
def code_of_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep transformers from copying code of models into the user's own cache."""
    from transformers import dynamic_module_utils

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path_factory.mktemp("code")))
        patch.setattr(sys, "path", list(sys.path))
        yield


@pytest.fixture(scope="session", params=NAMES)
def kind_and_settings(
    request: pytest.FixtureRequest, model_folder: Callable[[str], Path]
) -> tuple[str, dict[str, object]]:
    """Kind and settings of each encoder, as in a YAML entry."""
    if request.param in WITHOUT_FILES:
        kind, settings = WITHOUT_FILES[request.param]
        return kind, dict(settings)
    trust = {"trust_remote_code": True} if request.param == "own_code" else {}
    return "transformers", {"model": str(model_folder(request.param)), **trust}


@pytest.fixture(scope="session")
def encoder(kind_and_settings: tuple[str, dict[str, object]]) -> Encoder:
    """Each encoder, on the CPU."""
    return encoders.load(*kind_and_settings)
