"""Codes, scales and vectors of models, units and ONNX models, from audio shards to batches."""

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, encoders
from headrace.assemble.commit import commit_latents
from headrace.encoders.kmeans_units import fit_centroids
from tests.support.audio_shards import commit, write_partition
from tests.support.latent_builds import Latents
from tests.support.onnx_models import WHOLE
from tests.support.tiny_codecs import noisy_tones, save_codec

pytestmark = pytest.mark.medium

LENGTHS = (9001, 24_000, 12_345)
OFFSETS = ("codes_offset", "scales_offset")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: save_codec(name, tmp_path_factory.mktemp(name)) for name in ("dac", "encodec_48k", "clap")}


@pytest.fixture
def clips(tmp_path):
    found = {f"k{number}": noisy_tones(length, number).numpy() for number, length in enumerate(LENGTHS)}
    audio = Latents(tmp_path).audio
    commit(audio, write_partition(audio, [found]))
    return {
        key: np.clip(np.round(samples * 32768), -32768, 32767).astype("f4") / 32768 for key, samples in found.items()
    }


def _batch(root, kind="transformers", **settings):
    built = Latents(root).use(kind, settings)
    built.build()
    commit_latents(built.audio, built.storage, built.settings)
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(root), latents=["mel"], batch_size=3))
    return batch


def test_dacs_codes_are_read_beside_their_audio(tmp_path, clips, folders):
    settings = {"model": str(folders["dac"]), "output": "codes"}
    batch, encoder = _batch(tmp_path, **settings), encoders.load("transformers", settings)
    assert (batch["codes"].dtype, batch["codes"].shape) == (torch.int16, (3, 47, 4))
    for row, key in enumerate(batch["keys"]):
        audio = torch.from_numpy(clips[key])
        expected, lengths = encoder.encode(audio[None, None], torch.tensor([len(audio)]))["codes"]
        assert int(batch["codes_length"][row]) == int(lengths[0])
        assert torch.equal(batch["codes"][row, : int(lengths[0])].long(), expected[0])
        assert (batch["codes"][row, int(lengths[0]) :] == -1).all()


def test_encodecs_scales_are_an_output_of_their_own(tmp_path, clips, folders):
    batch = _batch(tmp_path, model=str(folders["encodec_48k"]), output="codes", num_codebooks=2)
    assert sorted(batch["codes_length"].tolist()) == [150, 150, 300]
    assert sorted(batch["scales_length"].tolist()) == [1, 1, 2]
    assert batch["scales"].shape == (3, 2, 1)
    long = int(batch["codes_length"].argmax())
    dataset = StreamingDataset(remote=str(tmp_path), latents=["mel"], batch_size=3, crop_seconds=0.3, shuffle=True)
    seen = {
        tuple(crop[name][crop["keys"].index(batch["keys"][long])].item() for name in OFFSETS)
        for crop in _epochs(dataset)
    }
    assert seen >= {(0, 0), (150, 1)}  # crops begin where a chunk begins, with its codes
    assert all(codes == 150 * scales for codes, scales in seen)


def _epochs(dataset):
    loader = StreamingDataLoader(dataset)
    for _ in range(12):
        yield from loader


def test_claps_vector_is_read_beside_its_audio(tmp_path, clips, folders):
    batch = _batch(tmp_path, model=str(folders["clap"]), output="vector")
    assert batch["embedding"].shape == (3, 12)
    assert torch.allclose(batch["embedding"].norm(dim=1), torch.ones(3), atol=1e-5)


def test_units_of_long_recordings_are_read_beside_their_audio(tmp_path, clips):
    mel = encoders.load("log_mel", {"num_mels": 8})
    frames = {
        key: mel.encode(torch.from_numpy(a)[None, None], torch.tensor([len(a)]))[0][0] for key, a in clips.items()
    }
    centroids = fit_centroids(torch.cat(list(frames.values())), 100)
    np.save(tmp_path / "units.npy", centroids.numpy())
    inner = {"kind": "log_mel", "num_mels": 8}
    batch = _batch(tmp_path, "kmeans", encoder=inner, centroids=str(tmp_path / "units.npy"))
    assert len(batch["codes"].unique()) >= 100
    for row, key in enumerate(batch["keys"]):
        expected = torch.cdist(frames[key], centroids).argmin(1)
        assert int(batch["codes_length"][row]) == len(expected)
        assert float((batch["codes"][row, : len(expected), 0] == expected).double().mean()) >= 0.99


def test_several_outputs_of_an_onnx_model_are_read_beside_their_audio(tmp_path, clips):
    outputs = {
        "level": {"kind": "vector", "dim": 1},
        "loud": {"kind": "codes", "hop": 160, "tensor": "codes"},
    }
    batch = _batch(tmp_path, "onnx", file=str(WHOLE), sample_rate_hz=16_000, outputs=outputs)
    for row, key in enumerate(batch["keys"]):
        padded = np.pad(np.abs(clips[key]), (0, -len(clips[key]) % 160))
        loud = padded.reshape(-1, 160).max(1) > 0.1
        assert np.array_equal(batch["loud"][row, : len(loud), 0], loud)
        assert np.isclose(batch["level"][row, 0], padded.mean(), atol=1e-6)
