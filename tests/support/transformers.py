"""Shared by test_transformers and the tests beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace import encoders

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
