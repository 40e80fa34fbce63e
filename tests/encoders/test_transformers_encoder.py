"""The encoder of `kind: transformers`: its layers and sums, and models that break the contract of their family."""

from pathlib import Path

import pytest
import torch

from headrace import encoders
from headrace.errors import ConfigError
from tests.support.audio_shards import noise
from tests.support.tiny_models import OWN_CODE, save
from tests.support.transformers import WITH_LAYERS, Folder, _ours, _reference, _time_first

pytestmark = pytest.mark.medium


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
