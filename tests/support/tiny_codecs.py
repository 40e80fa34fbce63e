"""Tiny codecs and CLAP with random weights, for tests of `output: codes`, `latents` and `vector`.

A fresh EnCodec, Mimi or X-Codec has empty codebooks and gives one code for everything. So codebooks are filled from
data: with randomly chosen frames of what the codebooks before have left of latents of noise.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

NUM_CODES = 256


def _encodec(**changes: Any) -> tuple[Any, Any]:
    from transformers import EncodecConfig, EncodecFeatureExtractor

    sizes = {"num_filters": 4, "hidden_size": 16, "codebook_size": NUM_CODES, "codebook_dim": 16}
    config = EncodecConfig(**{**sizes, "target_bandwidths": [1.2, 2.4, 4.8], **changes})
    rest = {"chunk_length_s": config.chunk_length_s, "overlap": config.overlap}
    extractor = EncodecFeatureExtractor(config.audio_channels, config.sampling_rate, **rest)
    return config, extractor


def _encodec_48k() -> tuple[Any, Any]:
    stereo = {"audio_channels": 2, "sampling_rate": 48_000, "normalize": True, "target_bandwidths": [2.4, 4.8]}
    return _encodec(use_causal_conv=False, norm_type="time_group_norm", chunk_length_s=1.0, overlap=0.01, **stereo)


def _dac() -> tuple[Any, Any]:
    from transformers import DacConfig, DacFeatureExtractor

    config = DacConfig(encoder_hidden_size=4, decoder_hidden_size=16, n_codebooks=4, codebook_size=NUM_CODES)
    return config, DacFeatureExtractor(sampling_rate=16_000, hop_length=512)


def _mimi() -> tuple[Any, Any]:
    from transformers import EncodecFeatureExtractor, MimiConfig

    sizes = {"hidden_size": 16, "num_filters": 4, "codebook_dim": 8, "vector_quantization_hidden_dimension": 8}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32}
    config = MimiConfig(
        **sizes, **layers, codebook_size=NUM_CODES, num_quantizers=6, upsample_groups=4, sliding_window=12
    )
    return config, EncodecFeatureExtractor(1, 24_000)


def _xcodec() -> tuple[Any, Any]:
    from transformers import DacFeatureExtractor, HubertConfig, XcodecConfig

    heads = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    convolutions = {"conv_dim": (8,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
    acoustic = {"model_type": "dac", "encoder_hidden_size": 4, "decoder_hidden_size": 64, "hidden_size": 16}
    config = XcodecConfig(
        acoustic_model_config=acoustic,
        semantic_model_config=HubertConfig(**heads, **convolutions).to_dict(),
        codebook_size=NUM_CODES,
        target_bandwidths=[0.4, 1.6],
    )
    return config, DacFeatureExtractor(sampling_rate=16_000, hop_length=320)


def _clap() -> tuple[Any, Any]:
    from transformers import ClapConfig, ClapFeatureExtractor

    audio = {"patch_embeds_hidden_size": 8, "depths": [1, 1], "num_attention_heads": [2, 2], "num_mel_bins": 64}
    audio |= {"hidden_size": 16, "spec_size": 256, "window_size": 8, "num_hidden_layers": 2}
    text = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = ClapConfig(audio_config=audio, text_config={**text, "vocab_size": 16}, projection_dim=12)
    return config, ClapFeatureExtractor(truncation="rand_trunc")


CODECS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "encodec_24k": _encodec,
    "encodec_48k": _encodec_48k,
    "dac": _dac,
    "mimi": _mimi,
    "xcodec": _xcodec,
}


def save_codec(name: str, folder: Path) -> Path:
    """Save the codec with this name, or `clap`, in `folder`; codebooks are filled."""
    from transformers import AutoModel

    torch.manual_seed(0)
    config, extractor = (CODECS | {"clap": _clap})[name]()
    model = AutoModel.from_config(config).eval()
    _strengthen(model)
    if name in CODECS and name != "dac":  # whose codebooks are random by themselves
        fill_codebooks(model, noisy_tones(60 * 24_000, seed=9))
    model.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return folder


@torch.inference_mode()
def _strengthen(model: Any) -> None:
    """Make latents of EnCodec and DAC differ in time by more than rounding, as those of trained models do."""
    for name, weight in model.named_parameters():
        if name.startswith("encoder.") and name.endswith(("original0", "conv1.weight", "conv2.weight")):
            weight.mul_(3.0)


def noisy_tones(num_frames: int, seed: int) -> Tensor:
    """Mono audio (N,) that changes: noise whose level and colour vary every 1,000 PCM frames."""
    generator = torch.Generator().manual_seed(seed)
    steps = -(-num_frames // 1000)
    levels, mix = torch.rand(2, steps, 1, generator=generator)
    noise = torch.randn(steps, 1000, generator=generator)
    low = torch.cumsum(noise, 1) / 30
    return (0.3 * levels * (mix * noise + (1 - mix) * low)).flatten()[:num_frames].clamp(-1, 1)


@torch.inference_mode()
def fill_codebooks(model: Any, audio: Tensor) -> None:
    """Fill the codebooks of EnCodec, Mimi or X-Codec with frames of the latents of audio (N,)."""
    latents = _latents(model, audio)
    groups = [model.quantizer]
    if hasattr(model.quantizer, "semantic_residual_vector_quantizer"):
        groups = [
            model.quantizer.semantic_residual_vector_quantizer,
            model.quantizer.acoustic_residual_vector_quantizer,
        ]
    for group in groups:
        projection = getattr(group, "input_proj", None)
        left = projection(latents) if projection is not None else latents
        for layer in group.layers if hasattr(group, "layers") else group.quantizers:
            left = left - layer.decode(_fill(layer.codebook, left) or layer.encode(left))


def _fill(codebook: Any, left: Tensor) -> None:
    frames = left.transpose(1, 2).flatten(0, 1)
    chosen = frames[torch.randperm(len(frames))[: codebook.codebook_size]].clone()
    (codebook.embed_sum if hasattr(codebook, "embed_sum") else codebook.embed).copy_(chosen)
    if hasattr(codebook, "_embed"):
        codebook._embed = None  # Mimi's quotient of sum and usage


def _latents(model: Any, audio: Tensor) -> Tensor:
    """Input of the quantizer for audio (N,), (B, D, T)."""
    seen: list[Tensor] = []
    own, given = model.quantizer.encode, audio.expand(getattr(model.config, "audio_channels", 1), -1)[None]

    def watched(latents: Tensor, *rest: Any) -> Any:
        seen.append(latents)
        return own(latents, *rest)

    model.quantizer.encode = watched
    model.encode(given)
    del model.quantizer.encode
    return torch.cat(seen, 2) if seen[0].shape[0] == 1 else seen[0]
