"""The encoders of kind `transformers` compared with transformers itself; their layers, files and errors."""

from pathlib import Path

import pytest
import torch

from headrace import encoders
from headrace.errors import ConfigError
from tests.support.audio_shards import noise
from tests.support.tiny_models import save
from tests.support.transformers import WITH_LAYERS, Folder, _ours, _reference, _time_first


@pytest.mark.parametrize("name", WITH_LAYERS)
def test_the_output_equals_that_of_transformers(name: str, model_folder: Folder) -> None:
    """Features, normalisation and network agree for a single recording."""
    samples = noise(32_000, seed=1)
    expected = _time_first(name, _reference(model_folder(name), samples).last_hidden_state)
    found = _ours(model_folder(name), samples)
    assert torch.allclose(found, expected[: len(found)], atol=1e-4 * float(expected.abs().max()))


@pytest.mark.medium
def test_encodecs_output_equals_that_of_transformers(model_folder: Folder) -> None:
    """Latents are taken before quantisation, time first."""
    samples = noise(320 * 50, seed=1)
    expected = _reference(model_folder("encodec_causal"), samples)[0].T
    assert torch.allclose(_ours(model_folder("encodec_causal"), samples), expected, atol=1e-5)


@pytest.mark.medium
def test_five_seconds_give_249_frames_of_wav2vec2_and_250_of_whisper(model_folder: Folder) -> None:
    """wav2vec2 counts complete kernels, Whisper is trimmed from 1500 frames."""
    assert len(_ours(model_folder("hubert"), noise(80_000, 0))) == 249
    assert len(_ours(model_folder("whisper"), noise(80_000, 0))) == 250


@pytest.mark.medium
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
