"""Latents in local shards are found by their rows of the index."""

import numpy as np
import pytest

from headrace import StreamingDataset
from headrace.streaming.samples.local_latents import NO_LATENTS, LocalShard, holds_only_latents
from tests.support.streaming.corpus import WIDTH, Clip, clips, write_dataset


def opened(folder, part="latents/crepe"):
    access = StreamingDataset(remote=f"{folder}/{part}", split="train", batch_size=2).reading.readers[0].primary
    return access, LocalShard.opened(access, 0)


def test_a_sample_has_the_place_of_its_latents_and_of_its_json(dataset_folder, corpus):
    access, shard = opened(dataset_folder)
    found = shard.sample(2)
    hidden = corpus[2].hidden()
    assert (found.key, found.num_frames, found.length, found.width) == (corpus[2].key, len(hidden), len(hidden), WIDTH)
    stored = shard.file.read(found.start, found.start + hidden.nbytes)
    assert np.array_equal(np.frombuffer(stored, np.float16).reshape(-1, WIDTH), hidden)
    assert bytes(shard.file.read(found.json_start, found.json_start + found.json_bytes)) == corpus[2].json()
    assert shard.form[1] == "float16"
    assert access.is_local


def test_rejected_latents_have_no_frames(tmp_path):
    write_dataset(tmp_path, {"train": [clips(1)[0], Clip(1, 400, rejection="overflow")]}, latents=True)
    _, shard = opened(tmp_path)
    assert shard.sample(0).width == WIDTH
    assert (shard.sample(1).num_frames, shard.sample(1).width) == (0, NO_LATENTS)


def test_shards_of_audio_do_not_qualify_and_a_missing_file_is_left_to_who_reads_it(tmp_path):
    write_dataset(tmp_path, {"train": clips(2)}, latents=True)
    audio, _ = opened(tmp_path, "audio")
    assert not holds_only_latents(audio.index(0))
    latents = StreamingDataset(remote=f"{tmp_path}/latents/crepe", batch_size=2).reading.readers[0].primary
    assert holds_only_latents(latents.index(0))
    (path,) = (tmp_path / "latents/crepe").glob("*.tar")
    path.unlink()
    assert LocalShard.opened(latents, 0) is None


@pytest.mark.parametrize("length", [-1, 9999])
def test_a_length_that_the_latents_do_not_have_is_left_to_who_reads_it(tmp_path, length):
    write_dataset(tmp_path, {"train": clips(1)}, latents=True)
    _, shard = opened(tmp_path)
    shard.index.numbers.setflags(write=True)
    shard.index.numbers[0, 0] = length
    assert shard.sample(0) is None
