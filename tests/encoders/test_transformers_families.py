"""Families of Hugging Face models: the supported ones, and the error about others."""

from pathlib import Path

import pytest

from headrace import encoders
from headrace.errors import ConfigError


def test_the_error_about_a_text_model_says_what_to_do(tmp_path: Path) -> None:
    """The message names the supported families and `kind: custom`."""
    from transformers import AutoModel, BertConfig, Wav2Vec2FeatureExtractor

    config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=16)
    AutoModel.from_config(config).save_pretrained(tmp_path)
    Wav2Vec2FeatureExtractor().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"'bert' are not supported.*custom"):
        encoders.load("transformers", {"model": str(tmp_path)})
