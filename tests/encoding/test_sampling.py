"""Frames that something is fitted to: a function of the keys, whatever else is encoded."""

import pytest
import torch

from headrace import encoders
from headrace.encoding.sampling import sampled_frames
from headrace.errors import BuildError, ConfigError
from headrace.format.manifests.manifests import newest_manifest
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, write_partition

CLIPS = {f"k{number}": noise(1600 + 160 * number, number) for number in range(9)}


def frames(folder, per_shard, most_clips, most_frames, encoder=None):
    storage, keys = LocalStorage(folder), list(CLIPS)
    shards = [{key: CLIPS[key] for key in keys[start : start + per_shard]} for start in range(0, len(keys), per_shard)]
    write_partition(storage, shards)
    names = [shard.name for shard in newest_manifest(storage, "train-0000").manifest.shards]
    encoder = encoder or encoders.load("log_mel", {"num_mels": 8})
    return sampled_frames(storage, names, "", encoder, most_clips, most_frames)


def test_all_frames_are_taken_of_little_audio(tmp_path):
    found = frames(tmp_path, 9, 100, 1000)
    encoder = encoders.load("log_mel", {"num_mels": 8})
    assert len(found) == sum(encoder.num_latent_frames(len(clip)) for clip in CLIPS.values())
    assert found.dtype == torch.float32


@pytest.mark.medium
def test_the_sample_is_bounded_and_the_same_each_time(tmp_path):
    found = frames(tmp_path / "a", 3, 3, 4)
    assert found.shape == (12, 8)  # a clip of each shard, four frames of it
    assert torch.equal(found, frames(tmp_path / "b", 3, 3, 4))
    rows = {tuple(row) for row in frames(tmp_path / "c", 9, 100, 4).tolist()}
    assert {tuple(row) for row in found.tolist()} <= rows


def test_no_more_clips_are_taken_than_asked_for_when_shards_do_not_divide_them(tmp_path):
    assert frames(tmp_path, 2, 7, 4).shape == (7 * 4, 8)  # of five shards


def test_audio_that_gives_no_frames_is_named(tmp_path):
    class Broken:
        def __init__(self):
            self._own = encoders.load("log_mel", {"num_mels": 8})

        def __getattr__(self, name):
            return getattr(self._own, name)

        def encode(self, batch, lengths):
            hidden, count = self._own.encode(batch, lengths)
            return hidden * float("nan"), count

    with pytest.raises(BuildError, match="gives no frames for the audio that centroids are fitted to"):
        frames(tmp_path, 9, 9, 9, Broken())


def test_an_encoder_without_frames_is_refused(tmp_path):
    from tests.support.outputs_encoder import Quantizer

    encoder = Quantizer("cpu")
    encoder.outputs = {"embedding": encoder.outputs["embedding"]}
    with pytest.raises(ConfigError, match="the inner encoder gives no frames"):
        frames(tmp_path, 9, 9, 9, encoder)
