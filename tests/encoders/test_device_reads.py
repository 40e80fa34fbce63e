"""No forward pass waits for a value of the device: each runs on `meta`, whose tensors have none to read."""

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from headrace import encoders
from headrace.encoders import running
from headrace.encoders.protocol import Encoder
from tests.support.tiny_codecs import save_codec
from tests.support.tiny_models import save

pytestmark = pytest.mark.medium

FAMILIES = ["hubert", "wav2vec2_group_norm", "wavlm", "data2vec", "whisper", "encodec_causal", "encodec_stereo", "ast"]
CODECS = {"encodec_24k": 0, "encodec_48k": 0, "dac": 0, "mimi": 1, "xcodec": 0}
"""Codec → times that transformers looks for several sequences in a row: once in Mimi, after its convolutions."""


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch has no autocast on `meta`."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())


def _encode_two_rows(encoder: Encoder) -> None:
    lengths = torch.tensor([encoder.sample_rate_hz, encoder.sample_rate_hz * (1 if encoder.info.length_step else 0.5)])
    audio = torch.empty(2, encoder.num_channels, encoder.sample_rate_hz, device="meta")
    encoder.encode(audio, lengths.long())


@pytest.mark.parametrize("name", FAMILIES)
def test_families_do_not_read_the_device(name: str, tmp_path: Path) -> None:
    encoder = encoders.load("transformers", {"model": str(save(name, tmp_path / "model"))})
    encoder._family.to("meta", wants_compiled=False)
    _encode_two_rows(encoder)


@pytest.mark.parametrize("name", CODECS)
def test_codecs_do_not_read_the_device(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr("transformers.masking_utils.find_packed_sequence_indices", looked.append)
    encoder = encoders.load("transformers", {"model": str(save_codec(name, tmp_path / "model")), "output": "codes"})
    looked.clear()
    for module in running.frozen(encoder._model, "meta").modules():
        if hasattr(module, "_embed"):
            module._embed = None  # of Mimi, which keeps its codebooks where it has run
    _encode_two_rows(encoder)
    assert len(looked) == CODECS[name]
