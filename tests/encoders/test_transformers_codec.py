"""Codes, latents and scales of codecs: compared with transformers, and between batches, paddings and windows."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.encoders import Encoder
from headrace.encoders.outputs import outputs_of
from headrace.encoding.assembly import Assembly
from headrace.encoding.batches import ClipPiece
from headrace.encoding.windows import plan_windows
from headrace.errors import ConfigError
from tests.support.tiny_codecs import CODECS, noisy_tones

pytestmark = pytest.mark.medium

Folder = Callable[[str], Path]
SHARES = {"encodec_24k": 0.99, "encodec_48k": 0.99, "mimi": 0.999, "dac": 1.0, "xcodec": 0.99}
"""The least shares of equal codes that are promised."""


@functools.cache
def _load(folder: Path, output: str = "codes", **settings: object) -> Encoder:
    return encoders.load("transformers", {"model": str(folder), "output": output, **settings})


def _audio(encoder: Encoder, num_frames: int, seed: int = 1) -> Tensor:
    return torch.stack([noisy_tones(num_frames, seed + 100 * channel) for channel in range(encoder.num_channels)])


def _encoded(encoder: Encoder, *rows: Tensor) -> list[dict[str, Tensor]]:
    """The outputs of rows (C, N) in one batch, each without padding."""
    lengths = torch.tensor([row.shape[1] for row in rows])
    batch = torch.stack([torch.nn.functional.pad(row, (0, int(lengths.max()) - row.shape[1])) for row in rows])
    found: Any = encoder.encode(batch, lengths)
    return [{name: values[row, :count] for name, values, count in _counted(found, row)} for row in range(len(rows))]


def _counted(found: Any, row: int) -> list[tuple[str, Tensor, int]]:
    return [(name, values, int(counts[row])) for name, (values, counts) in found.items()]


def _share(one: Tensor, other: Tensor) -> float:
    assert one.shape == other.shape
    return float((one == other).double().mean())


def _reference(folder: Path, audio: Tensor, **call: Any) -> Any:
    from transformers import AutoFeatureExtractor, AutoModel

    extractor = AutoFeatureExtractor.from_pretrained(folder)
    samples = audio[0].numpy() if len(audio) == 1 else audio.numpy()
    inputs = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
    with torch.inference_mode():
        return AutoModel.from_pretrained(folder).eval().encode(inputs["input_values"], **call)


@pytest.mark.parametrize("name", CODECS)
def test_codes_are_those_of_transformers_and_many(name: str, codec_folder: Folder) -> None:
    """One recording at a time; at least 100 codes are distinct. The last frame is of zeros that only we append."""
    encoder = _load(codec_folder(name))
    audio = _audio(encoder, 4 * encoder.sample_rate_hz + 777)
    (found,) = _encoded(encoder, audio)
    expected = _reference(codec_folder(name), audio).audio_codes
    expected = expected if expected.ndim == 4 else expected[None]
    expected = expected.permute(1, 0, 3, 2).flatten(1, 2)[0]
    assert found["codes"].shape[1] == outputs_of(encoder)[0].width
    assert len(found["codes"].unique()) >= 100
    assert _share(found["codes"][:-1], expected[: len(found["codes"]) - 1]) >= SHARES[name]
    assert len(found["codes"]) == len(expected) - (150 if name == "encodec_48k" else 0)  # a chunk that holds no audio


@pytest.mark.parametrize("name", CODECS)
def test_codes_do_not_depend_on_batch_or_padding(name: str, codec_folder: Folder) -> None:
    """A row alone, in a batch of longer rows, and with zeros behind it."""
    encoder = _load(codec_folder(name))
    rate = encoder.sample_rate_hz
    rows = [_audio(encoder, length, length) for length in (3 * rate, rate + 511, 2 * rate - 3, 700)]
    in_batch = _encoded(encoder, *rows)
    assert len(torch.cat([found["codes"].flatten() for found in in_batch]).unique()) >= 100
    for row, together in zip(rows, in_batch, strict=True):
        (alone,) = _encoded(encoder, row)
        padded = torch.nn.functional.pad(row, (0, 5000))[None]
        right: Any = encoder.encode(padded, torch.tensor([row.shape[1]]))
        assert _share(together["codes"], alone["codes"]) >= SHARES[name]
        assert _share(right["codes"][0][0, : len(alone["codes"])], alone["codes"]) >= SHARES[name]


@pytest.mark.parametrize(("name", "seconds"), [("encodec_24k", 6), ("encodec_48k", 7), ("dac", 5), ("mimi", 8)])
def test_codes_of_windows_are_those_of_the_whole(name: str, seconds: float, codec_folder: Folder) -> None:
    """Windows meet at a seam in the middle of what they share."""
    windowed, whole = _load(codec_folder(name), window_seconds=seconds), _load(codec_folder(name), window_seconds=60)
    audio = _audio(whole, 12 * whole.sample_rate_hz + 99)
    assert len(plan_windows(audio.shape[1], windowed)) > 1
    (expected,) = _encoded(whole, audio)
    found = _joined(windowed, audio)
    assert _share(found["codes"], expected["codes"]) >= SHARES[name]
    if "scales" in expected:
        assert torch.allclose(found["scales"], expected["scales"])


def _joined(encoder: Encoder, audio: Tensor) -> dict[str, Tensor]:
    """The outputs of audio (C, N), encoded in windows and joined."""
    windows = plan_windows(audio.shape[1], encoder)
    assembly, made = Assembly((windows,), (audio.shape[1],)), None
    for number, window in enumerate(windows):
        (found,) = _encoded(encoder, audio[:, window.start : window.stop])
        made = assembly.add(ClipPiece(0, number, window), tuple(found.values()), encoder)
    assert isinstance(made, tuple)
    return dict(zip((output.name for output in outputs_of(encoder)), made, strict=True))


@pytest.mark.parametrize("name", CODECS)
def test_latents_are_what_the_codes_were_made_of(name: str, codec_folder: Folder) -> None:
    """The first codebook's nearest entry to each latent frame is its first code."""
    encoder, codes = _load(codec_folder(name), "latents"), _load(codec_folder(name))
    audio = _audio(encoder, encoder.sample_rate_hz)
    (found,), (coded,) = _encoded(encoder, audio), _encoded(codes, audio)
    assert len(found["latents"]) == len(coded["codes"])
    assert outputs_of(encoder)[0].hop == outputs_of(codes)[0].hop
    quantizer = codes._model.quantizer  # type: ignore[attr-defined]
    latents = found["latents"].T[None].contiguous()
    with torch.inference_mode():
        again = quantizer(latents)[1] if name == "dac" else quantizer.encode(latents).transpose(0, 1)
    assert _share(again[0, : coded["codes"].shape[1]].T, coded["codes"]) >= SHARES[name]


def test_the_scales_of_encodec_48k_decode_its_codes(codec_folder: Folder) -> None:
    """Codes and scales, as they are stored, give the audio that transformers decodes from its own."""
    from transformers import AutoModel

    encoder, folder = _load(codec_folder("encodec_48k")), codec_folder("encodec_48k")
    codes, scales = outputs_of(encoder)
    audio = _audio(encoder, 2 * 48_000)
    (found,) = _encoded(encoder, audio)
    expected = _reference(folder, audio)
    assert (found["codes"].shape, found["scales"].shape) == ((450, 2), (3, 1))
    assert (float(codes.hop), scales.hop) == (316.8, 47_520)
    frames = found["codes"].unflatten(0, (3, 150)).transpose(1, 2)[:, None]
    with torch.inference_mode():
        model = AutoModel.from_pretrained(folder).eval()
        ours = model.decode(frames, list(found["scales"][:, None])).audio_values
        theirs = model.decode(expected.audio_codes, expected.audio_scales).audio_values
    assert torch.allclose(ours[..., :96_000], theirs[..., :96_000], atol=1e-5 * float(theirs.abs().max()))


def test_dacs_lengths_are_those_of_its_extractor(codec_folder: Folder) -> None:
    """A second at 16 kHz gives 32 frames; the bare model gives 31."""
    encoder = _load(codec_folder("dac"))
    (found,) = _encoded(encoder, _audio(encoder, 16_000))
    assert found["codes"].shape == (32, 4)


def test_the_number_of_codebooks_and_the_bandwidth_are_settings(codec_folder: Folder) -> None:
    """The first codebooks are the same for any number; EnCodec takes its least bandwidth that has enough."""
    folder = codec_folder("encodec_24k")
    audio = noisy_tones(24_000, 3)[None]
    found = {
        str(settings): _encoded(_load(folder, **settings), audio)[0]["codes"]
        for settings in ({}, {"num_codebooks": 3}, {"bandwidth": 2.4}, {"bandwidth": 4.8})
    }
    assert [codes.shape[1] for codes in found.values()] == [2, 3, 4, 8]
    *fewer, most = found.values()
    for codes in fewer:
        assert torch.equal(codes, most[:, : codes.shape[1]])
    assert _load(codec_folder("mimi"), num_codebooks=2).outputs[0].width == 2  # type: ignore[attr-defined]
    prints = {
        encoders.fingerprint("transformers", {"model": str(folder), **settings})
        for settings in ({}, {"output": "codes"}, {"output": "codes", "num_codebooks": 2}, {"output": "latents"})
    }
    assert len(prints) == 4


WRONG = {
    "both": ({"num_codebooks": 2, "bandwidth": 2.4}, "num_codebooks and bandwidth are both given"),
    "none": ({"num_codebooks": 0}, "num_codebooks must be at least 1, found 0"),
    "too many": ({"num_codebooks": 9}, "num_codebooks 9: this model has 8"),
    "no such bandwidth": ({"bandwidth": 7.0}, "bandwidth 7: this model has the bandwidths 1.2, 2.4, 4.8"),
    "of hidden states": ({"layer": 0}, "layer belongs to output: hidden, found codes"),
    "of codes": ({"output": "latents", "num_codebooks": 2}, "num_codebooks belongs to output: codes, found latents"),
    "no such output": ({"output": "code"}, "output"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings: dict[str, Any], words: str, codec_folder: Folder) -> None:
    """With what is possible."""
    with pytest.raises(ConfigError, match=words):
        _load(codec_folder("encodec_24k"), **settings)


def test_models_without_an_output_are_named(codec_folder: Folder, model_folder: Folder) -> None:
    """With the models that have it, and what else to do."""
    with pytest.raises(ConfigError, match=r"bandwidth 1: this model has none"):
        _load(codec_folder("dac"), bandwidth=1.0)
    for output in ("codes", "latents"):
        with pytest.raises(ConfigError, match=rf"output: {output}: models of type 'hubert' are not .*EnCodec, DAC"):
            _load(model_folder("hubert"), output)
    with pytest.raises(ConfigError, match=r"output: vector: models of type 'hubert' are not supported; .*CLAP"):
        _load(model_folder("hubert"), "vector")


def test_every_number_of_codes_fits_its_dtype(codec_folder: Folder) -> None:
    """int16 holds the codebooks of all models here."""
    assert {_load(codec_folder(name)).outputs[0].dtype for name in CODECS} == {"int16"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("seconds", [0.01, 1.0, 3.3, 10.0])
def test_claps_vector_is_that_of_transformers(seconds: float, codec_folder: Folder) -> None:
    """Short recordings are repeated as its extractor repeats them."""
    from transformers import AutoFeatureExtractor, AutoModel

    folder = codec_folder("clap")
    encoder = _load(folder, "vector")
    audio = noisy_tones(round(48_000 * seconds), 4)[None]
    extractor = AutoFeatureExtractor.from_pretrained(folder)
    inputs = extractor(audio[0].numpy().astype(np.float64), sampling_rate=48_000, return_tensors="pt")
    with torch.inference_mode():
        model = AutoModel.from_pretrained(folder).eval()
        expected = model.get_audio_features(**{k: v.float() for k, v in inputs.items()}).pooler_output
    found: Any = encoder.encode(audio[None], torch.tensor([audio.shape[1]]))
    assert encoder.outputs[0].width == 12  # type: ignore[attr-defined]
    assert torch.allclose(found["embedding"], expected, atol=2e-5)


@pytest.mark.parametrize("name", ["clap", "ast"])
def test_vectors_do_not_depend_on_the_batch(name: str, codec_folder: Folder, model_folder: Folder) -> None:
    """Rows of other lengths change nothing."""
    encoder = _load(codec_folder(name) if name == "clap" else model_folder(name), "vector")
    lengths = torch.tensor([encoder.sample_rate_hz * 2, 300, 5000])
    batch = torch.zeros(3, 1, int(lengths[0]))
    for row, length in enumerate(lengths.tolist()):
        batch[row, 0, :length] = noisy_tones(length, row)
    together: Any = encoder.encode(batch, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone: Any = encoder.encode(batch[row : row + 1, :, :length], lengths[row : row + 1])
        assert torch.allclose(together["embedding"][row], alone["embedding"][0], atol=1e-5)


def test_asts_vector_is_its_pooled_output(model_folder: Folder) -> None:
    """The mean of two tokens, computed by transformers."""
    from tests.support.transformers import _reference as of_transformers

    samples = noisy_tones(20_000, 5)
    expected = of_transformers(model_folder("ast"), samples.numpy()).pooler_output
    found: Any = _load(model_folder("ast"), "vector").encode(samples[None, None], torch.tensor([20_000]))
    assert torch.allclose(found["embedding"], expected, atol=1e-4 * float(expected.abs().max()))
