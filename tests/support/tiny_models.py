"""Tiny models with random weights, one per family of `kind: transformers`, saved as model authors save them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_WAVE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "conv_dim": (16,) * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}


def _wave(
    config_name: str, *, do_normalize: bool = True, rate_hz: int = 16_000, **changes: Any
) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        import transformers

        config = getattr(transformers, config_name)(**{**_WAVE, **changes})
        return config, transformers.Wav2Vec2FeatureExtractor(do_normalize=do_normalize, sampling_rate=rate_hz)

    return make


def _whisper() -> tuple[Any, Any]:
    from transformers import WhisperConfig, WhisperFeatureExtractor

    sizes = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    sizes |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 64, "max_source_positions": 1500}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return WhisperConfig(**sizes, **tokens), WhisperFeatureExtractor()


def _encodec(**changes: Any) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        from transformers import EncodecConfig, EncodecFeatureExtractor

        config = EncodecConfig(
            **{"num_filters": 4, "hidden_size": 16, "codebook_size": 16, "codebook_dim": 16, **changes}
        )
        extractor = EncodecFeatureExtractor(feature_size=config.audio_channels, sampling_rate=config.sampling_rate)
        return config, extractor

    return make


def _ast() -> tuple[Any, Any]:
    from transformers import ASTConfig, ASTFeatureExtractor

    config = ASTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
    return config, ASTFeatureExtractor()


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "wav2vec2_group_norm": _wave("Wav2Vec2Config", feat_extract_norm="group"),
    "wav2vec2_layer_norm": _wave("Wav2Vec2Config", feat_extract_norm="layer", do_stable_layer_norm=True),
    "hubert": _wave("HubertConfig"),
    "hubert_batch_norm": _wave("HubertConfig", conv_pos_batch_norm=True, do_normalize=False),
    "mert": _wave("HubertConfig", rate_hz=24_000),
    "own_code": _wave("HubertConfig"),
    "wavlm": _wave("WavLMConfig"),
    "data2vec": _wave("Data2VecAudioConfig", conv_pos_kernel_size=5, num_conv_pos_embeddings=2),
    "whisper": _whisper,
    "encodec_causal": _encodec(),
    "encodec_stereo": _encodec(
        use_causal_conv=False, norm_type="time_group_norm", audio_channels=2, sampling_rate=48_000, normalize=True
    ),
    "ast": _ast,
}


class Malice:
    """An object whose pickle creates a file if it is loaded unsafely."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.mark,)


def save(name: str, folder: Path, *, seed: int = 0) -> Path:
    """Save the model with this name in `folder`."""
    from transformers import AutoModel

    torch.manual_seed(seed)
    config, extractor = MODELS[name]()
    AutoModel.from_config(config).save_pretrained(folder)
    extractor.save_pretrained(folder)
    if name in _REWRITTEN:
        _REWRITTEN[name](folder)
    return folder


def describe(folder: Path, **changes: Any) -> None:
    """Change entries of a saved model's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _to_mert(folder: Path) -> None:
    """Change a saved model to MERT's form: HuBERT under another name, old weight files, and code that must not run."""
    from safetensors.torch import load_file

    code = {"AutoConfig": "configuration_MERT.MERTConfig", "AutoModel": "modeling_MERT.MERTModel"}
    own = {"feature_extractor_cqt": False, "deepnorm": False, "attention_relax": -1.0, "sample_rate": 24_000}
    describe(folder, model_type="mert_model", architectures=["MERTModel"], auto_map=code, **own)
    for name in ("configuration_MERT.py", "modeling_MERT.py"):
        (folder / name).write_text("raise AssertionError('this code ran')")
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    state = load_file(folder / "model.safetensors")
    for new, old in names.items():
        state = {key.replace(new, old): value for key, value in state.items()}
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


OWN_CODE = """
from transformers import HubertConfig, HubertModel

class StepsConfig(HubertConfig):
    model_type = "steps"

class StepsModel(HubertModel):
    config_class = StepsConfig
"""


def _to_own_code(folder: Path) -> None:
    """Change a saved model to one with its own class."""
    (folder / "steps.py").write_text(OWN_CODE)
    code = {"AutoConfig": "steps.StepsConfig", "AutoModel": "steps.StepsModel"}
    describe(folder, model_type="steps", architectures=["StepsModel"], auto_map=code)


_REWRITTEN = {"mert": _to_mert, "own_code": _to_own_code}
