"""Latents whose audio has not changed are taken over, and everything else is encoded."""

import numpy as np
import pytest
import torch

from headrace.assemble.latents import LatentSettings
from headrace.format.indexes.index import index_name
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import Latents

CLIPS = {f"k{i}": noise(4000 + 500 * i, i) for i in range(6)}
SHARDS = [{key: CLIPS[key] for key in ("k0", "k1", "k2", "k3")}, {key: CLIPS[key] for key in ("k4", "k5")}]


@pytest.fixture
def latents(tmp_path):
    """Built once."""
    made = Latents(tmp_path)
    write_partition(made.audio, SHARDS)
    assert made.build().stats.num_kept == 0
    return made


def found(latents, build):
    """Key → latents and JSON of every sample that a build left."""
    shards = build.manifest.manifest.shards
    keys = {shard.name: latents.index(shard.name).keys() for shard in shards}
    return {key: latents.sample(name, key) for name, found in keys.items() for key in found}


@pytest.mark.medium
def test_another_column_encodes_nothing(latents):
    before = found(latents, latents.build())
    write_partition(latents.audio, SHARDS, metadata={key: {"title": f"Title of {key}"} for key in CLIPS})
    latents.done = 0
    build = latents.build()
    assert (len(build.written), build.stats.num_kept, build.stats.num_batches) == (2, 6, 0)
    assert build.stats.audio_seconds == 0
    assert latents.done == 6
    for key, (payload, about, raw) in found(latents, build).items():
        assert about["title"] == f"Title of {key}"
        assert np.array_equal(raw, before[key][2])
        assert torch.equal(payload["encoder_hidden"], before[key][0]["encoder_hidden"])


@pytest.mark.medium
def test_of_a_shard_with_one_changed_recording_that_one_alone_is_encoded(latents):
    changed = {"k1": noise(4500, 99)}  # as long as before
    write_partition(latents.audio, [SHARDS[0] | changed, SHARDS[1]])
    build = latents.build()
    assert (len(build.written), build.stats.num_kept) == (1, 3)
    assert build.stats.audio_seconds == pytest.approx(4500 / 16_000)
    fresh = Latents(latents.audio.root.parent / "fresh")
    write_partition(fresh.audio, [SHARDS[0] | changed, SHARDS[1]])
    assert fresh.build().written == tuple(shard.name for shard in build.manifest.manifest.shards)


@pytest.mark.medium
def test_samples_that_move_to_other_shards_take_their_latents_along(latents):
    write_partition(latents.audio, [{"k5": CLIPS["k5"], "k0": CLIPS["k0"], "new": noise(3000, 7)}, {"k2": CLIPS["k2"]}])
    build = latents.build()
    assert build.stats.num_kept == 3
    assert build.stats.audio_seconds == pytest.approx(3000 / 16_000)


@pytest.mark.medium
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_latents_in_another_form_are_none_of_ours(latents, dtype):
    latents.settings = LatentSettings(latents.settings.encoder, dtype)
    assert latents.build().stats.num_kept == 0


@pytest.mark.medium
def test_latents_of_another_encoder_are_none_of_ours(latents, tmp_path):
    other = Latents(tmp_path, num_mels=16)
    other.storage = latents.storage
    build = other.build()
    assert build.stats.num_kept == 0
    assert found(other, build)["k0"][2].shape[1] == 16


def test_where_the_old_audio_is_gone_everything_is_encoded(latents):
    old = list(latents.audio.root.glob("*.tar"))
    write_partition(latents.audio, SHARDS, metadata={key: {"title": "new"} for key in CLIPS})
    for tar in old:
        tar.unlink()
        (tar.parent / index_name(tar.name)).unlink()
    build = latents.build()
    assert (len(build.written), build.stats.num_kept) == (2, 0)


def test_damaged_latents_are_not_taken_over(latents):
    before = found(latents, latents.build())
    for tar in latents.storage.root.glob("*_000000-*.tar"):
        blob = bytearray(tar.read_bytes())
        row = latents.index(tar.name).find("k2")
        blob[int(latents.index(tar.name).tensors[row, 0, 0]) + 100] ^= 1
        tar.write_bytes(blob)
    write_partition(latents.audio, SHARDS, metadata={key: {"title": "new"} for key in CLIPS})
    build = latents.build()
    assert 2 <= build.stats.num_kept < 6
    for key, (_, _, raw) in found(latents, build).items():
        assert np.allclose(raw, before[key][2], atol=1e-5)


def test_latents_that_are_cut_off_are_not_taken_over(latents):
    for tar in latents.storage.root.glob("*.tar"):
        tar.write_bytes(tar.read_bytes()[:1500])
    write_partition(latents.audio, SHARDS, metadata={key: {"title": "new"} for key in CLIPS})
    build = latents.build()
    assert (len(build.written), build.stats.num_kept) == (2, 0)


def test_an_object_store_keeps_latents_as_a_folder_does(latents, tmp_path):
    from headrace.stores.storage import open_storage

    stored = Latents(tmp_path)
    stored.audio, stored.storage = open_storage("memory://kept/audio"), open_storage("memory://kept/latents")
    write_partition(stored.audio, SHARDS)
    first = found(stored, stored.build())
    write_partition(stored.audio, SHARDS, metadata={"k0": {"title": "new"}})
    build = stored.build()
    assert build.stats.num_kept == 4
    assert np.array_equal(found(stored, build)["k0"][2], first["k0"][2])
