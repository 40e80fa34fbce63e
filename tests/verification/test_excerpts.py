"""Reading single samples for display."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.assemble.latents import LatentSettings
from headrace.errors import SampleError
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import newest_manifest
from headrace.verification.excerpts import read_audio, read_latents
from tests.support.audio_shards import tone, write_partition
from tests.support.damage import flip_audio
from tests.support.latent_builds import MEL, PARTITION, Latents


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_latents_of_every_dtype_are_read_as_float32_from_the_beginning(dtype: str, tmp_path: Path) -> None:
    latents = Latents(tmp_path)
    write_partition(latents.audio, [{"short": tone(0.1), "long": tone(0.5)}])
    latents.settings = LatentSettings(encoders.fingerprint("log_mel", MEL), dtype)
    index = read_index(latents.storage, latents.build().written[0])
    whole = read_latents(latents.storage, index, 1)
    assert whole.dtype == np.float32
    assert whole.shape == (51, 8)
    payload = latents.storage.read(index.shard)[slice(*index.range_of(1, "pth"))]
    expected = torch.load(io.BytesIO(payload), weights_only=True)["encoder_hidden"]
    assert np.array_equal(whole, expected.float().numpy())
    assert np.array_equal(read_latents(latents.storage, index, 1, 7), whole[:7])
    audio = read_index(latents.audio, newest_manifest(latents.audio, PARTITION).manifest.shards[0].name)
    assert read_latents(latents.audio, audio, 1) is None
    assert read_audio(latents.storage, index, 1) is None


def test_only_the_requested_audio_is_decoded(tmp_path: Path) -> None:
    latents = Latents(tmp_path)
    write_partition(latents.audio, [{"stereo": np.stack([tone(1.0), tone(1.0, 880.0)], axis=1)}])
    index = read_index(latents.audio, newest_manifest(latents.audio, PARTITION).manifest.shards[0].name)
    whole = read_audio(latents.audio, index, 0)
    assert whole.shape == (2, 16_000)
    assert np.abs(whole[0] - tone(1.0)).max() < 1e-4
    assert np.array_equal(read_audio(latents.audio, index, 0, 0.25), whole[:, :4000])


def test_the_error_about_an_unreadable_sample_names_its_shard_and_a_solution(tmp_path: Path) -> None:
    latents = Latents(tmp_path)
    write_partition(latents.audio, [{"one": tone(0.3), "two": tone(0.3, 880.0)}])
    encoded = read_index(latents.storage, latents.build().written[0])
    index = read_index(latents.audio, newest_manifest(latents.audio, PARTITION).manifest.shards[0].name)
    flip_audio(latents.audio, index, 1)
    assert read_audio(latents.audio, index, 0).shape == (1, 4800)
    with pytest.raises(SampleError, match=rf"{index.shard}: sample two cannot be read: .*FLAC.*headrace verify"):
        read_audio(latents.audio, index, 1)
    latents.storage.local_path(encoded.shard).write_bytes(b"cut off")
    with pytest.raises(SampleError, match=rf"{encoded.shard}: sample one cannot be read"):
        read_latents(latents.storage, encoded, 0)
    latents.audio.delete(index.shard)
    with pytest.raises(SampleError, match=rf"{index.shard}: sample one cannot be read: .*not found"):
        read_audio(latents.audio, index, 0)
