"""docs/latents.md is correct."""

import dataclasses
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

from headrace import encoders
from headrace.config.dataset import load_config
from headrace.encoders.crepe_settings import CrepeSettings
from headrace.encoders.fbank_settings import FbankSettings
from headrace.encoders.log_mel_settings import LogMelSettings
from headrace.encoders.onnx_settings import OnnxSettings
from headrace.encoders.text_settings import TextSettings
from headrace.encoders.transformers_settings import TransformersSettings
from tests.support.audio_shards import tone

DOCUMENT = Path("docs/latents.md").read_text()


def test_the_documented_yaml_is_valid(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "songs.yaml").write_text(text)
    first, second = load_config(tmp_path / "songs.yaml").latents
    assert first.frame_aligned == ("chord_indices",)
    assert second.encoder.settings == {"model": "m-a-p/MERT-v1-95M", "revision": "main", "layer": 7}


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("crepe", CrepeSettings),
        ("log_mel", LogMelSettings),
        ("fbank", FbankSettings),
        ("onnx", OnnxSettings),
        ("text", TextSettings),
        ("transformers", TransformersSettings),
    ],
)
def test_every_setting_and_its_default_are_documented(kind, form):
    (row,) = re.findall(rf"^\| `{kind}` \| (.*?) \|", DOCUMENT, re.MULTILINE)
    named = dict(re.findall(r"`(\w+)(?:: ([^`]*))?`", row))
    for field in dataclasses.fields(form):
        assert field.name in named
        if field.default is not dataclasses.MISSING:
            assert yaml.safe_load(named[field.name]) == field.default, field.name


def test_the_documented_custom_encoder_runs(monkeypatch):
    code = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)[1]
    module = ModuleType("birds")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "birds", module)
    encoder = encoders.load("custom", {"encoder": "birds:Loudness"})
    clip = torch.from_numpy(tone(0.1))
    batch = torch.stack([clip, torch.cat([clip[:500], torch.zeros(1100)])])[:, None]
    hidden, lengths = encoder.encode(batch, torch.tensor([1600, 500]))
    assert lengths.tolist() == [encoder.num_latent_frames(n) for n in (1600, 500)] == [5, 2]
    assert not hidden[1, 2:].any()
    assert encoder.info.is_concurrent is False
