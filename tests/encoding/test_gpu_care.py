"""Precautions that keep a GPU exact, within its memory and fed, as far as a test without a GPU can show them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.encoders import EncoderInfo
from headrace.errors import BuildError
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import MEL, Latents
from tests.support.tiny_models import save


class Watched:
    """A log-mel encoder whose batches a test looks at."""

    def __init__(self, padded_to: int = 0) -> None:
        self._own = encoders.load("log_mel", MEL)
        info = self._own.info
        self.info = EncoderInfo(info.context, info.window, info.overlap, padded_to=padded_to)
        self.sizes: list[int] = []
        self.allowed: set[str] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        self.sizes.append(len(batch))
        self.allowed |= {torch.backends.cudnn.conv.fp32_precision, torch.backends.cuda.matmul.fp32_precision}
        return self._own.encode(batch, lengths)


def _latents(root: Path, encoder: object, num_clips: int = 6) -> Latents:
    latents = Latents(root)
    write_partition(latents.audio, [{f"k{i}": noise(1600, i) for i in range(num_clips)}])
    latents.encoders = lambda: [encoder]
    return latents


@pytest.fixture
def tf32() -> Iterator[None]:
    """A process that allows TF32, as torch does by default for convolutions."""
    switches = torch.backends.cudnn.conv, torch.backends.cudnn.rnn, torch.backends.cuda.matmul
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = "tf32"
    yield
    for switch, value in zip(switches, before, strict=True):
        switch.fp32_precision = value


@pytest.mark.usefixtures("tf32")
def test_latents_are_computed_in_full_float32_and_the_switches_set_back(tmp_path: Path) -> None:
    """TF32 on the GPU alone would give other latents under the same fingerprint."""
    encoder = Watched()
    _latents(tmp_path, encoder).build()
    assert "tf32" not in encoder.allowed
    assert torch.backends.cudnn.conv.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"


def test_rows_count_for_what_the_encoder_pads_them_to(tmp_path: Path) -> None:
    """Six clips of 0.1 s in batches of 1 s: all at once, but two at a time when each is computed as 0.5 s.

    After the first batch one of its rows comes alone, to be compared.
    """
    plain, padding = Watched(), Watched(padded_to=8000)
    _latents(tmp_path / "plain", plain).build(batch_seconds=1.0)
    built = _latents(tmp_path / "padding", padding).build(batch_seconds=1.0)
    assert plain.sizes == [6, 1]
    assert padding.sizes == [2, 1, 2, 2]
    assert built.stats.padding_share == pytest.approx(0.8)


def test_memory_runs_out_once_in_a_process(tmp_path: Path) -> None:
    """The next partition is planned in batches of the size that fits."""

    class Small(Watched):
        def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            found = super().encode(batch, lengths)
            if len(batch) > 3:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return found

    encoder = Small()
    first = _latents(tmp_path / "first", encoder).build(batch_seconds=1.0)
    encoder.sizes.clear()
    second = _latents(tmp_path / "second", encoder).build(batch_seconds=1.0)
    assert (first.stats.halvings, second.stats.halvings) == (1, 0)
    assert encoder.sizes == [3, 1, 3]


@pytest.mark.parametrize("name", ["whisper", "ast", "hubert"])
@pytest.mark.parametrize(("settings", "wanted"), [({}, False), ({"layer": 1}, True), ({"layer_weights": None}, False)])
def test_hidden_states_are_held_only_where_a_layer_is_asked_for(
    name: str, settings: dict[str, object], wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them at once are as large as the model is deep."""
    encoder = encoders.load("transformers", {"model": str(save(name, tmp_path / "model")), **settings})
    whole, asked = encoder._family._forward, []

    def forward(*args: object, **options: object) -> object:
        asked.append(options["output_hidden_states"])
        return whole(*args, **options)

    monkeypatch.setattr(encoder._family, "_forward", forward)
    encoder.encode(torch.from_numpy(noise(16_000, 1))[None, None], torch.tensor([16_000]))
    assert asked == [wanted]


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "GET was unable to find an engine to execute this computation",
        "FIND was unable to find an engine to execute this computation",
        "Unable to find a valid cuDNN algorithm to run convolution",
    ],
)
def test_what_a_gpu_says_when_its_memory_is_full_halves_the_batches(message: str, tmp_path: Path) -> None:
    """CuDNN does not report it as out of memory: no workspace fits. The error of a row that fails alone says so."""

    class Full(Watched):
        most = 1

        def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            if len(batch) > self.most:
                raise RuntimeError(message)
            return super().encode(batch, lengths)

    assert _latents(tmp_path / "rows", Full()).build().stats.halvings >= 1
    Full.most = 0
    with pytest.raises(BuildError, match="even alone") as caught:
        _latents(tmp_path / "none", Full()).build()
    assert message in str(caught.value)
