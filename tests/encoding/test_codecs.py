"""Codes, scales and vectors of models, from audio shards to batches."""

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, encoders
from headrace.assemble.commit import commit_latents
from tests.support.audio_shards import commit, write_partition
from tests.support.latent_builds import Latents
from tests.support.tiny_codecs import noisy_tones, save_codec

LENGTHS = (9001, 16_000, 12_345)


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


def _batch(root, **settings):
    built = Latents(root).use("transformers", settings)
    built.build()
    commit_latents(built.audio, built.storage, built.settings)
    (batch,) = StreamingDataLoader(StreamingDataset(remote=str(root), latents=["mel"], batch_size=3))
    return batch


def test_dacs_codes_are_read_beside_their_audio(tmp_path, clips, folders):
    settings = {"model": str(folders["dac"]), "output": "codes"}
    batch, encoder = _batch(tmp_path, **settings), encoders.load("transformers", settings)
    assert (batch["codes"].dtype, batch["codes"].shape) == (torch.int16, (3, 32, 4))
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


def test_claps_vector_is_read_beside_its_audio(tmp_path, clips, folders):
    batch = _batch(tmp_path, model=str(folders["clap"]), output="vector")
    assert batch["embedding"].shape == (3, 12)
    assert torch.allclose(batch["embedding"].norm(dim=1), torch.ones(3), atol=1e-5)
