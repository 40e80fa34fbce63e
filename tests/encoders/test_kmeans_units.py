"""Units over another encoder's frames, and the fitting of their centroids."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from headrace import encoders
from headrace.encoders.kmeans_units import fit_centroids, nearest, read_centroids
from headrace.encoders.outputs import outputs_of
from headrace.errors import ConfigError, IntegrityError
from tests.support.tiny_codecs import noisy_tones

INNER = {"kind": "log_mel", "num_mels": 8}


def _frames(seconds=8):
    mel = encoders.load("log_mel", {"num_mels": 8})
    audio = noisy_tones(16_000 * seconds, 1)
    return audio, mel.encode(audio[None, None], torch.tensor([len(audio)]))[0][0]


def test_units_are_the_nearest_centroids_of_the_inner_frames(tmp_path):
    audio, frames = _frames()
    centroids = fit_centroids(frames, 120)
    np.save(tmp_path / "c.npy", centroids.numpy())
    save_file({"centroids": centroids.numpy()}, tmp_path / "c.safetensors")
    rows = torch.nn.functional.pad(torch.stack([audio[:40_000], audio[40_000:80_000]]), (0, 500))[:, None]
    for name in ("c.npy", "c.safetensors"):
        encoder = encoders.load("kmeans", {"encoder": INNER, "centroids": str(tmp_path / name)})
        (output,) = outputs_of(encoder)
        assert (output.width, output.hop, output.dtype) == (1, 160, "int16")
        codes, lengths = encoder.encode(rows, torch.tensor([40_000, 40_000]))["codes"]
        assert lengths.tolist() == [251, 251]
        expected = torch.cdist(frames[:249], centroids).argmin(1)  # the last frames of the row see its end
        assert float((codes[0, :249, 0] == expected).double().mean()) >= 0.999
        assert len(codes.unique()) >= 100


def test_fitting_finds_centres_of_clusters_and_is_deterministic():
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    frames = (centres[:, None] + 0.1 * torch.randn(3, 50, 2, generator=torch.Generator().manual_seed(1))).flatten(0, 1)
    for seed in range(5):
        found = fit_centroids(frames, 3, seed=seed)
        assert torch.equal(found, fit_centroids(frames, 3, seed=seed))
        assert (torch.cdist(centres, found).min(1).values < 0.1).all()
        assert len(nearest(frames, found).unique()) == 3


def test_centroids_that_do_not_fit_are_named(tmp_path):
    np.save(tmp_path / "c.npy", np.eye(5, dtype=np.float32))
    with pytest.raises(ConfigError, match=r"centroids have 5 numbers each, and .*LogMel.* gives frames of 8 numbers"):
        encoders.load("kmeans", {"encoder": INNER, "centroids": str(tmp_path / "c.npy")})
    with pytest.raises(ConfigError, match="3 frames are too few for 4 centroids"):
        fit_centroids(torch.zeros(3, 2), 4)


BAD = {
    "text": b"hello",
    "pickle": np.array([{}], dtype=object),
    "one row": np.ones(3),
    "NaN": np.full((2, 2), np.nan),
    "complex": np.full((2, 2), 1j),
    "letters": np.array([["1", "2"]]),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_files_that_are_no_centroids_are_rejected(bad, suffix, tmp_path):
    path = tmp_path / f"c{suffix}"
    if isinstance(bad, bytes) or suffix == ".safetensors":
        path.write_bytes(b"hello")
    else:
        np.save(path, bad, allow_pickle=True)
    with pytest.raises(IntegrityError, match=rf"c{suffix}: .*fit them again"):
        read_centroids(path)
