"""Builds of named outputs of a few clips, and what loaders must give of them."""

import numpy as np
import torch

from headrace import StreamingDataLoader, StreamingDataset, encoders
from headrace.assemble.commit import commit_latents
from headrace.assemble.latents import LatentSettings
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import Latents

NAME = "tests.support.outputs_encoder:Quantizer"
LENGTHS = (9001, 8000, 12_345, 640)


class Built(Latents):
    """Outputs of the clips, built and committed."""

    def __init__(self, root, name="mel", **settings):
        super().__init__(root)
        self.storage = type(self.storage)(root / "latents" / name)
        self.own = {"encoder": NAME, **settings}
        self.encoders = lambda: [encoders.load("custom", self.own)]
        self.settings = LatentSettings(encoders.fingerprint("custom", self.own), "float32")

    def commit(self):
        self.build()
        commit_latents(self.audio, self.storage, self.settings)
        return self


def clips():
    return {f"k{number}": noise(length, number) for number, length in enumerate(LENGTHS)}


def write_audio(folder):
    """Audio shards of the clips, committed."""
    built, samples = Built(folder), list(clips().items())
    commit(built.audio, write_partition(built.audio, [dict(samples[:2]), dict(samples[2:])]))


def expected(samples):
    """The outputs of one clip, encoded alone from what is stored of it."""
    stored = np.clip(np.round(samples * 32768), -32768, 32767).astype(np.float32) / 32768
    found = encoders.load("custom", {"encoder": NAME}).encode(
        torch.from_numpy(stored)[None, None], torch.tensor([len(stored)])
    )
    return found["codes"][0][0].to(torch.int16), found["embedding"][0], found["levels"][0][0]


def batches(remote, **options):
    return StreamingDataLoader(StreamingDataset(remote=str(remote), **options))


def rows(batches):
    """Key → the values of a row of a batch, without padding."""
    return {
        key: (
            batch["codes"][row, : batch["codes_length"][row]],
            batch["embedding"][row],
            batch["levels"][row, : batch["levels_length"][row]],
        )
        for batch in batches
        for row, key in enumerate(batch["keys"])
        if not batch["is_padding"][row]
    }


def assert_outputs(found):
    assert found.keys() == clips().keys()
    for key, samples in clips().items():
        codes, embedding, levels = expected(samples)
        assert torch.equal(found[key][0], codes)
        assert torch.allclose(found[key][1], embedding, atol=1e-6)
        assert torch.allclose(found[key][2], levels, atol=1e-6)
