"""Models of `kind: transformers` are loaded whole and without running code that is not trusted."""

from pathlib import Path

import pytest
import torch

from headrace import encoders
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError
from tests.support.audio_shards import noise
from tests.support.tiny_models import Malice, describe, save
from tests.support.transformers import _ours


@pytest.mark.medium
def test_mert_is_loaded_as_hubert_and_its_code_does_not_run(tmp_path: Path) -> None:
    """It runs at 24 kHz and 75 steps per second. The numbers equal those of HuBERT with the same weights."""
    mert, hubert = save("mert", tmp_path / "mert"), save("hubert", tmp_path / "hubert")
    samples = noise(24_000, seed=1)
    encoder = encoders.load("transformers", {"model": str(mert)})
    assert (encoder.sample_rate_hz, encoders.frame_rate_hz(encoder)) == (24_000, 75.0)
    assert torch.equal(_ours(mert, samples), _ours(hubert, samples))
    assert torch.equal(_ours(mert, samples, trust_remote_code=True), _ours(hubert, samples))


@pytest.mark.parametrize("more", [{"deepnorm": True}, {"feature_extractor_cqt": True}, {"attention_relax": 32.0}])
def test_a_mert_with_other_layers_is_an_error_unless_its_code_is_trusted(
    tmp_path: Path, more: dict[str, object]
) -> None:
    """The message names the files to review and the setting. Failing trusted code is not reported as a bad file."""
    folder = save("mert", tmp_path / "mert")
    describe(folder, **more)
    with pytest.raises(ConfigError, match=r"'mert_model' .*modeling_MERT\.py.*trust_remote_code: true"):
        encoders.load("transformers", {"model": str(folder)})
    with pytest.raises(ConfigError, match=r"own code does not run with transformers .*this code ran.*kind: custom"):
        encoders.load("transformers", {"model": str(folder), "trust_remote_code": True})


def test_the_error_about_missing_parts_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder (without access to the Hub), the feature extractor or the weights may be missing."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(MissingDependencyError, match="name its folder"):
        encoders.load("transformers", {"model": "no-such-owner/no-such-model"})
    folder = save("hubert", tmp_path / "model")
    weights_file = folder / "model.safetensors"
    weights_file.rename(tmp_path / "elsewhere")
    with pytest.raises(MissingDependencyError, match="no weights"):
        encoders.load("transformers", {"model": str(folder)})
    (tmp_path / "elsewhere").rename(weights_file)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(MissingDependencyError, match="feature extractor"):
        encoders.load("transformers", {"model": str(folder)})


def test_a_malicious_pickle_is_an_error_and_does_not_run(tmp_path: Path) -> None:
    """The old format of weights can contain code, which never runs."""
    folder = save("hubert", tmp_path / "model")
    (folder / "model.safetensors").unlink()
    torch.save({"encoder.layer_norm.weight": Malice(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(IntegrityError, match="cannot be loaded safely"):
        encoders.load("transformers", {"model": str(folder)})
    assert not (tmp_path / "ran").exists()


def test_the_error_about_nan_weights_and_missing_weights_names_them(tmp_path: Path) -> None:
    """Without the check, transformers fills missing weights with random numbers."""
    from safetensors.torch import load_file, save_file

    folder = save("hubert", tmp_path / "model")
    path = folder / "model.safetensors"
    state = load_file(path)
    name = "encoder.layers.1.feed_forward.output_dense.weight"
    save_file({**state, name: torch.full_like(state[name], float("nan"))}, path, {"format": "pt"})
    with pytest.raises(IntegrityError, match=name.replace(".", r"\.")):
        encoders.load("transformers", {"model": str(folder)})
    save_file({key: value for key, value in state.items() if key != name}, path, {"format": "pt"})
    with pytest.raises(IntegrityError, match="are missing; download"):
        encoders.load("transformers", {"model": str(folder)})
