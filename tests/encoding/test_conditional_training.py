"""Codes, a vector of a caption, the caption and audio in one batch train a model of codes given the rest."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from headrace import StreamingDataLoader, StreamingDataset, encoders
from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings, build_latent_partition
from headrace.encoders.kmeans_units import fit_centroids
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import commit, write_partition
from tests.support.latent_builds import PARTITION
from tests.support.tiny_texts import DIM, save_text

pytestmark = pytest.mark.medium

PITCHES_HZ = {"a dog barks": 200.0, "the cat": 900.0, "a bird sings": 3000.0}
RATE_HZ, NUM_CODES, MEL = 16_000, 6, {"num_mels": 8}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """An output of tones whose pitch follows from the caption: units of log-mel, and vectors of captions."""
    root = tmp_path_factory.mktemp("output")
    audio, captions = LocalStorage(root / "audio"), {f"k{i:02d}": list(PITCHES_HZ)[i % 3] for i in range(48)}
    clips = {key: _tone(PITCHES_HZ[caption], 6000 + 300 * i) for i, (key, caption) in enumerate(captions.items())}
    keys = list(clips)
    shards = [{key: clips[key] for key in keys[i : i + 12]} for i in range(0, len(keys), 12)]
    metadata = {key: {"caption": caption} for key, caption in captions.items()}
    commit(audio, write_partition(audio, shards, metadata=metadata))
    _units(root, audio, clips)
    _build(root, audio, "captions", "text", {"model": str(save_text("static", root / "model"))}, column="caption")
    return root


def _tone(pitch_hz, num_frames):
    time = np.arange(num_frames) / RATE_HZ
    return np.where(time < time[-1] / 2, 0.3 * np.sin(2 * np.pi * pitch_hz * time), 0.0).astype(np.float32)


def _units(root, audio, clips):
    mel = encoders.load("log_mel", MEL)
    given = ((torch.from_numpy(clip)[None, None], torch.tensor([len(clip)])) for clip in clips.values())
    frames = [mel.encode(*one)[0][0] for one in given]
    np.save(root / "centroids.npy", fit_centroids(torch.cat(frames), NUM_CODES).numpy())
    settings = {"encoder": {"kind": "log_mel", **MEL}, "centroids": str(root / "centroids.npy")}
    _build(root, audio, "units", "kmeans", settings)


def _build(root, audio, name, kind, settings, **how):
    storage = LocalStorage(root / "latents" / name)
    wanted = LatentSettings(encoders.fingerprint(kind, settings), "float32", **how)
    build_latent_partition(PARTITION, wanted, lambda: [encoders.load(kind, settings)], audio, storage)
    commit_latents(audio, storage, wanted)


def _losses(output, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(DIM + 1, 32), nn.ReLU(), nn.Linear(32, NUM_CODES))
    optimizer, losses = torch.optim.Adam(model.parameters(), 1e-2), []
    dataset = StreamingDataset(
        remote=output, latents=["units", "captions"], batch_size=8, shuffle=True, shuffle_seed=seed
    )
    loader = StreamingDataLoader(dataset)
    for _ in range(10):
        for batch in loader:
            assert {about["caption"] for about in batch["metadata"]} <= PITCHES_HZ.keys()
            codes, hop = batch["codes"][..., 0].long(), 160
            loud = functional.pad(batch["audio"][:, 0], (0, hop)).unfold(1, hop, hop).square().mean(2)
            loud = functional.pad(loud, (0, max(0, codes.shape[1] - loud.shape[1])))[:, : codes.shape[1], None]
            given = batch["embedding"][:, None].expand(-1, codes.shape[1], -1)
            logits = model(torch.cat([given, (loud + 1e-6).log() / 10], dim=2))
            loss = functional.cross_entropy(logits.flatten(0, 1), codes.flatten(), ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_model_of_codes_learns_from_audio_and_caption(output, seed):
    losses = _losses(output, seed)
    tenth = len(losses) // 10
    assert sum(losses[-tenth:]) < 0.7 * sum(losses[:tenth])
