"""Samples of other people's tars that hold audio and latents in one: both arrive, together."""

import io
import tarfile

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.errors import ConfigError
from tests.support.streaming.corpus import clips


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "shards").mkdir()
    write(tmp_path / "shards/a.tar", clips(5), with_latents=range(5))
    return tmp_path / "shards"


def write(path, samples, with_latents):
    with tarfile.open(path, "w") as archive:
        for number, clip in enumerate(samples):
            fields = [("flac", clip.flac()), ("json", clip.json())]
            if number in with_latents:
                fields.append(("pth", latents(number)))
            for name, blob in fields:
                info = tarfile.TarInfo(f"{clip.key}.{name}")
                info.size = len(blob)
                archive.addfile(info, io.BytesIO(blob))


def latents(number):
    file = io.BytesIO()
    torch.save({"encoder_hidden": hidden(number), "encoder_length": 3 + number}, file)
    return file.getvalue()


def hidden(number):
    return torch.full((3 + number, 4), float(number), dtype=torch.float16)


def check(batch, first, num_samples):
    for row, number in enumerate(range(first, first + num_samples)):
        clip = clips(5)[number]
        assert batch["keys"][row] == clip.key
        assert np.array_equal(batch["audio"][row, :, : clip.num_frames].numpy(), clip.audio())
        assert int(batch["sample_rate"][row]) == clips(1)[0].rate_hz
        assert torch.equal(batch["encoder_hidden"][row, : 3 + number], hidden(number))
        assert not batch["encoder_hidden"][row, 3 + number :].any()
        assert batch["encoder_hidden"].dtype == torch.float16
        assert int(batch["encoder_length"][row]) == 3 + number


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_hold_both(shards, num_workers):
    loader = StreamingDataLoader(StreamingDataset(remote=shards, batch_size=3), num_workers=num_workers)
    first, last = list(loader)
    check(first, 0, 3)
    check(last, 3, 2)
    assert set(first) == set(last) == set(next(iter(webdataset_loader(shards, batch_size=3))))
    assert last["is_padding"].tolist() == [False, False, True]


def test_a_sample_holds_both(shards):
    sample = StreamingDataset(remote=shards)[2]
    assert sample["audio"].shape[1] == clips(5)[2].num_frames
    assert torch.equal(sample["encoder_hidden"], hidden(2))
    assert sample["encoder_length"] == 5
    assert "pth" not in sample


def test_a_crop_that_could_not_cut_both_alike_is_rejected(shards):
    with pytest.raises(ConfigError, match=r"a\.tar: its samples hold audio and latents in one"):
        list(StreamingDataLoader(StreamingDataset(remote=shards, batch_size=3, crop_frames=10)))


def test_a_batch_of_which_only_some_have_latents_is_rejected_by_name(tmp_path):
    write(tmp_path / "a.tar", clips(2), with_latents=[0])
    with pytest.raises(ConfigError, match=f"sample '{clips(2)[1].key}' has no encoder_hidden"):
        list(StreamingDataLoader(StreamingDataset(remote=tmp_path, batch_size=2)))
    assert len(list(StreamingDataLoader(StreamingDataset(remote=tmp_path, batch_size=1)))) == 2
