"""Encoding on CUDA: the same latents as on the CPU, while copies and computing overlap; needs a GPU."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.encoding.plans import EncodingOptions
from headrace.latents import LatentSettings, build_latent_partition
from headrace.storage import LocalStorage
from tests.audio_shards import noise, write_partition
from tests.encoders.tiny_models import save
from tests.latent_builds import Latents

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def _devices() -> list[str]:
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def _build(
    root: Path, audio: LocalStorage, kind: str, settings: dict[str, object], devices: list[str], **options: object
) -> Latents:
    made = Latents(root)
    made.audio = audio
    made.settings = LatentSettings(encoders.fingerprint(kind, settings), "float32")
    loaded = [encoders.load(kind, settings, device) for device in devices]
    made.encoders = lambda: loaded
    made.last = made.build(**options)
    return made


@pytest.mark.parametrize(
    "name", ["crepe", "log_mel", "hubert", "wav2vec2_layer_norm", "wavlm", "whisper", "encodec_causal", "ast"]
)
def test_latents_of_a_gpu_are_those_of_a_cpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the rounding of float32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    kind, settings = (
        (name, {}) if name in encoders.KINDS else ("transformers", {"model": str(save(name, tmp_path / "model"))})
    )
    audio = LocalStorage(tmp_path / "audio")
    keys = [f"k{i:02d}" for i in range(24)]
    write_partition(audio, [{key: noise(4000 + 1777 * i, i) for i, key in enumerate(keys)}])
    cpu = _build(tmp_path / "cpu", audio, kind, settings, ["cpu"])
    gpu = _build(tmp_path / "gpu", audio, kind, settings, _devices(), batch_seconds=10.0)
    for key in keys:
        expected, found = (each.sample(each.last.manifest.manifest.shards[0].name, key)[2] for each in (cpu, gpu))
        assert np.abs(expected - found).max() < 1e-3 * max(1.0, np.abs(expected).max()), key
    assert gpu.last.stats.peak_memory_bytes > 0
    assert 0 < gpu.last.stats.busy_share <= 1
    assert all(device.startswith("cuda") for device in gpu.last.stats.devices)


def test_running_out_of_gpu_memory_halves_the_batches(tmp_path: Path) -> None:
    """A real allocation failure, on a GPU whose memory is capped for this process."""
    audio = LocalStorage(tmp_path / "audio")
    write_partition(audio, [{f"k{i:03d}": noise(160_000, i) for i in range(64)}])
    folder = save("wav2vec2_layer_norm", tmp_path / "model")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    try:
        torch.cuda.set_per_process_memory_fraction(400e6 / total)
        made = _build(tmp_path, audio, "transformers", {"model": str(folder)}, ["cuda:0"], batch_seconds=640.0)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert made.last.stats.halvings >= 1
    assert made.last.manifest.manifest.num_samples == 64


def test_non_finite_latents_on_a_gpu_name_the_sample(tmp_path: Path) -> None:
    """The check runs on the device."""
    from headrace.errors import SampleError

    audio = LocalStorage(tmp_path / "audio")
    write_partition(audio, [{f"k{i}": noise(16_000 + i, i) for i in range(8)}])
    encoder = encoders.load("crepe", {}, "cuda:0")
    whole = encoder.encode

    def broken(batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, num_latent = whole(batch, lengths)
        hidden[lengths == 16_003] = float("nan")
        return hidden, num_latent

    encoder.encode = broken
    with pytest.raises(SampleError, match="'k3'"):
        build_latent_partition(
            "train-0000",
            LatentSettings(encoder.fingerprint),
            lambda: [encoder],
            audio,
            LocalStorage(tmp_path / "out"),
            options=EncodingOptions(),
        )


def test_compiled_and_autocast_stay_close(tmp_path: Path) -> None:
    """Speed-ups change latents by little."""
    clip = torch.from_numpy(noise(16_000, 0))[None, None]
    exact = encoders.load("crepe", {}, "cuda:0").encode(clip.cuda(), torch.tensor([16_000]))[0]
    for settings in ({"compile": True}, {"autocast": "bfloat16"}):
        found = encoders.load("crepe", settings, "cuda:0").encode(clip.cuda(), torch.tensor([16_000]))[0]
        assert float((exact - found).abs().max()) < 0.1 * float(exact.abs().max())
