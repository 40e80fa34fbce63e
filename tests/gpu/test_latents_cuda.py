"""Encoding on CUDA: the same latents as on the CPU, while copies and computation overlap. Needs a GPU."""

import gc
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.encoding import device_worker
from headrace.encoding.plans import EncodingOptions
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import Latents
from tests.support.tiny_models import save

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
def test_latents_of_a_gpu_equal_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    """They are equal up to the rounding of float32, with torch's defaults (cuDNN would use TF32)."""
    kind, settings = (
        (name, {}) if name in encoders.KINDS else ("transformers", {"model": str(save(name, tmp_path / "model"))})
    )
    audio = LocalStorage(tmp_path / "audio")
    keys = [f"k{i:02d}" for i in range(24)]
    write_partition(audio, [{key: noise(4000 + 1777 * i, i) for i, key in enumerate(keys)}])
    cpu = _build(tmp_path / "cpu", audio, kind, settings, ["cpu"])
    gpu = _build(tmp_path / "gpu", audio, kind, settings, _devices(), batch_seconds=10.0)
    for key in keys:
        expected, found = _values(cpu, key), _values(gpu, key)
        assert np.abs(expected - found).max() < 1e-3 * max(1.0, np.abs(expected).max()), key
    assert gpu.last.stats.peak_memory_bytes > 0
    assert 0 < gpu.last.stats.busy_share <= 1
    assert all(device.startswith("cuda") for device in gpu.last.stats.devices)


def _values(made: Latents, key: str) -> np.ndarray:
    return made.sample(made.last.manifest.manifest.shards[0].name, key)[2]


def test_running_out_of_gpu_memory_halves_the_batches(tmp_path: Path) -> None:
    """A real allocation failure, on a GPU with a memory limit for this process. The latents are the same."""
    audio = LocalStorage(tmp_path / "audio")
    keys = [f"k{i:03d}" for i in range(64)]
    write_partition(audio, [{key: noise(160_000, i) for i, key in enumerate(keys)}])
    folder = save("wav2vec2_layer_norm", tmp_path / "model")
    roomy = _build(tmp_path / "roomy", audio, "transformers", {"model": str(folder)}, ["cuda:0"], batch_seconds=40.0)
    total = torch.cuda.get_device_properties(0).total_memory
    gc.collect()
    torch.cuda.empty_cache()
    try:
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 150e6) / total)
        made = _build(tmp_path, audio, "transformers", {"model": str(folder)}, ["cuda:0"], batch_seconds=640.0)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert made.last.stats.halvings >= 1
    assert roomy.last.stats.halvings == 0
    for key in keys:
        assert np.allclose(_values(made, key), _values(roomy, key), atol=1e-3), key


def test_streams_are_created_once_per_device_and_not_per_batch_or_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for computing, and one for the copies of each of the two batches in progress."""
    made = []
    new_stream = device_worker._Lanes._new_stream

    def counted(*args: object) -> torch.cuda.Stream:
        made.append(new_stream(*args))
        return made[-1]

    monkeypatch.setattr(device_worker._Lanes, "_new_stream", counted)
    device_worker._made_lanes.cache_clear()
    audio = LocalStorage(tmp_path / "audio")
    write_partition(audio, [{f"k{i:03d}": noise(16_000, i) for i in range(40)}])
    for run in ("first", "second"):
        built = _build(tmp_path / run, audio, "log_mel", {}, ["cuda:0"], batch_seconds=2.1)
    assert built.last.stats.num_batches == 21  # one row comes again alone, to be compared
    assert len(made) == 3


@pytest.mark.parametrize("name", ["crepe", "hubert", "whisper"])
def test_latents_of_a_gpu_do_not_depend_on_the_batch(name: str, tmp_path: Path) -> None:
    """Twenty-four lengths in one batch and alone are equal up to the rounding of float32."""
    kind, settings = (
        (name, {}) if name in encoders.KINDS else ("transformers", {"model": str(save(name, tmp_path / "model"))})
    )
    audio = LocalStorage(tmp_path / "audio")
    keys = [f"k{i:02d}" for i in range(24)]
    write_partition(audio, [{key: noise(4000 + 1777 * i, i) for i, key in enumerate(keys)}])
    alone = _build(tmp_path / "alone", audio, kind, settings, ["cuda:0"], batch_seconds=0.001)
    together = _build(tmp_path / "together", audio, kind, settings, ["cuda:0"], batch_seconds=900.0)
    assert (alone.last.stats.num_batches, together.last.stats.num_batches) == (24, 2)  # and one row alone again
    for key in keys:
        expected, found = _values(alone, key), _values(together, key)
        assert np.abs(expected - found).max() < 1e-3 * max(1.0, np.abs(expected).max()), key


def test_non_finite_latents_on_a_gpu_reject_only_their_sample(tmp_path: Path) -> None:
    """The check runs on the device."""
    audio = LocalStorage(tmp_path / "audio")
    write_partition(audio, [{f"k{i}": noise(16_000 + i, i) for i in range(8)}])
    encoder = encoders.load("crepe", {}, "cuda:0")
    whole = encoder.encode

    def broken(batch: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, num_latent = whole(batch, lengths)
        hidden[lengths == 16_003] = float("nan")
        return hidden, num_latent

    encoder.encode = broken
    build = build_latent_partition(
        "train-0000",
        LatentSettings(encoder.fingerprint),
        lambda: [encoder],
        audio,
        LocalStorage(tmp_path / "out"),
        options=EncodingOptions(),
    )
    assert [(refusal.key, refusal.code) for refusal in build.manifest.manifest.refused] == [("k3", "not_finite")]


def test_compile_and_autocast_give_close_latents(tmp_path: Path) -> None:
    """These options change latents only slightly."""
    clip = torch.from_numpy(noise(16_000, 0))[None, None]
    exact = encoders.load("crepe", {}, "cuda:0").encode(clip.cuda(), torch.tensor([16_000]))[0]
    for settings in ({"compile": True}, {"autocast": "bfloat16"}):
        found = encoders.load("crepe", settings, "cuda:0").encode(clip.cuda(), torch.tensor([16_000]))[0]
        assert float((exact - found).abs().max()) < 0.1 * float(exact.abs().max())
