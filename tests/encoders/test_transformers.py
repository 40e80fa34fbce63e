"""The encoders of kind `transformers` compared with transformers itself; their layers, files and errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.errors import ConfigError, IntegrityError, MissingDependencyError
from tests.support.audio_shards import noise
from tests.support.tiny_models import OWN_CODE, Malice, describe, save

Folder = Callable[[str], Path]
WITH_LAYERS = ["wav2vec2_group_norm", "wav2vec2_layer_norm", "hubert", "wavlm", "data2vec", "whisper", "ast"]


def _reference(folder: Path, samples: np.ndarray, **call: Any) -> Any:
    """The result of transformers for one recording, with its own feature extractor."""
    from transformers import AutoFeatureExtractor, AutoModel

    model = AutoModel.from_pretrained(folder).eval()
    extractor = AutoFeatureExtractor.from_pretrained(folder)
    inputs = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
    if model.config.model_type == "whisper":
        model, inputs = model.get_encoder(), {"input_features": inputs["input_features"]}
    if model.config.model_type == "encodec":
        return model.encoder(inputs["input_values"])
    with torch.inference_mode():
        return model(**inputs, **call)


def _ours(folder: Path, samples: np.ndarray, **settings: object) -> Tensor:
    encoder = encoders.load("transformers", {"model": str(folder), **settings})
    audio = torch.from_numpy(samples)
    if encoder.info.normalizes:
        audio = (audio - audio.mean()) / torch.sqrt(audio.var(correction=0) + 1e-7)
    return encoder.encode(audio[None, None], torch.tensor([len(samples)]))[0][0]


def _time_first(name: str, states: Tensor) -> Tensor:
    """One row of a reference result (B, …), as (T, D)."""
    if name == "ast":
        return states[0, 2:].unflatten(0, (12, 101)).mean(0)
    return states[0]


@pytest.mark.parametrize("name", WITH_LAYERS)
def test_the_output_equals_that_of_transformers(name: str, model_folder: Folder) -> None:
    """Features, normalisation and network agree for a single recording."""
    samples = noise(32_000, seed=1)
    expected = _time_first(name, _reference(model_folder(name), samples).last_hidden_state)
    found = _ours(model_folder(name), samples)
    assert torch.allclose(found, expected[: len(found)], atol=1e-4 * float(expected.abs().max()))


def test_encodecs_output_equals_that_of_transformers(model_folder: Folder) -> None:
    """Latents are taken before quantisation, time first."""
    samples = noise(320 * 50, seed=1)
    expected = _reference(model_folder("encodec_causal"), samples)[0].T
    assert torch.allclose(_ours(model_folder("encodec_causal"), samples), expected, atol=1e-5)


@pytest.mark.parametrize("name", WITH_LAYERS)
def test_any_layer_can_be_selected(name: str, model_folder: Folder) -> None:
    """Higher layers are not computed and have no effect."""
    samples = noise(16_000, seed=2)
    states = _reference(model_folder(name), samples, output_hidden_states=True).hidden_states
    for layer in (0, 1, len(states) - 1, -2):
        expected = _time_first(name, states[layer])
        found = _ours(model_folder(name), samples, layer=layer)
        assert torch.allclose(found, expected[: len(found)], atol=1e-4 * float(expected.abs().max())), layer


@pytest.mark.parametrize("name", ["wav2vec2_group_norm", "whisper", "ast"])
def test_layers_can_be_summed_with_weights(name: str, model_folder: Folder) -> None:
    """The result is the sum of all hidden states times their weights."""
    samples = noise(16_000, seed=3)
    states = _reference(model_folder(name), samples, output_hidden_states=True).hidden_states
    given = [0.25 * (i + 1) for i in range(len(states))]
    expected = sum(weight * _time_first(name, state) for weight, state in zip(given, states, strict=True))
    found = _ours(model_folder(name), samples, layer_weights=given)
    assert torch.allclose(found, expected[: len(found)], atol=1e-4 * float(expected.abs().max()))


def test_five_seconds_give_249_frames_of_wav2vec2_and_250_of_whisper(model_folder: Folder) -> None:
    """wav2vec2 counts complete kernels, Whisper is trimmed from 1500 frames."""
    assert len(_ours(model_folder("hubert"), noise(80_000, 0))) == 249
    assert len(_ours(model_folder("whisper"), noise(80_000, 0))) == 250


def test_the_error_about_invalid_layers_and_windows_names_the_valid_ones(model_folder: Folder) -> None:
    """A layer that is too high, a wrong number of weights, or both at once."""
    for settings, message in (
        ({"layer": 9}, "hidden states 0 to 3"),
        ({"layer_weights": [1.0]}, "1 layer_weights, this model has 4"),
        ({"layer": 1, "layer_weights": [1.0]}, "both given"),
        ({"window_seconds": 0.0}, "window_seconds must be above 0"),
        ({"window_seconds": float("nan")}, "window_seconds: expected a finite number"),
        ({"window_seconds": 3.0}, "too short for the overlap"),
        ({"overlap_seconds": -1.0}, "overlap_seconds must not be below 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            encoders.load("transformers", {"model": str(model_folder("hubert")), **settings})


def test_the_fingerprint_depends_on_the_content_of_the_files(tmp_path: Path) -> None:
    """Another folder with the same content is the same model. Other weights, layers or windows are not."""
    first, same, other = (save("hubert", tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    own = encoders.fingerprint("transformers", {"model": str(first)})
    assert encoders.fingerprint("transformers", {"model": str(same)}) == own
    changed = {encoders.fingerprint("transformers", {"model": str(other)})}
    for settings in ({"layer": 1}, {"window_seconds": 20.0}, {"overlap_seconds": 3.0}, {"autocast": "bfloat16"}):
        changed.add(encoders.fingerprint("transformers", {"model": str(first), **settings}))
    assert len(changed | {own}) == 6
    assert encoders.fingerprint("transformers", {"model": str(first), "compile": True}) == own


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


def test_model_code_that_violates_the_contract_of_its_family_is_an_error(tmp_path: Path) -> None:
    """The error comes when the model is loaded, not hours later in a run."""
    no_states = "return super().forward(*args, **{**kwargs, 'output_hidden_states': False})"
    few_steps = "out = super().forward(*args, **kwargs); out.last_hidden_state = out[0][:, :3]; return out"
    for name, body, reason, settings in (
        ("states", no_states, "TypeError", {"layer": 1}),
        ("steps", few_steps, "shape", {}),
    ):
        folder = save("own_code", tmp_path / name)
        (folder / "steps.py").write_text(f"{OWN_CODE}\n    def forward(self, *args, **kwargs):\n        {body}\n")
        with pytest.raises(ConfigError, match=f"own code does not run.*{reason}"):
            encoders.load("transformers", {"model": str(folder), "trust_remote_code": True, **settings})


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


def test_the_error_about_a_text_model_says_what_to_do(tmp_path: Path) -> None:
    """The message names the supported families and `kind: custom`."""
    from transformers import AutoModel, BertConfig, Wav2Vec2FeatureExtractor

    config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=16)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    Wav2Vec2FeatureExtractor().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"'bert' are not supported.*custom"):
        encoders.load("transformers", {"model": str(tmp_path)})
