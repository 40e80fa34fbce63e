"""Samples that cannot share a batch share none, in whatever shards they are and whichever of them are read."""

from itertools import chain

import numpy as np
import pytest

from headrace.assemble.commit import commit_latents
from headrace.config.operation import LoaderConfig
from headrace.smoke import run as smoke
from headrace.smoke.choice import ChosenShards, _picked
from headrace.smoke.run import SmokePart, smoke_test
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.latent_builds import Latents

pytestmark = pytest.mark.medium

SHARDS = {  # channels of the samples of three shards, and the rate of each shard
    "channels of shards": (["111", "222", "111"], (8000, 8000, 8000)),
    "channels in a shard": (["111", "111", "121"], (8000, 8000, 8000)),
    "rates": (["111", "111", "111"], (8000, 16_000, 8000)),
    "both": (["111", "222", "121"], (16_000, 8000, 8000)),
}
CHOICES = [(0,), (0, 1), (0, 2), (0, 1, 2)]


@pytest.fixture(scope="module", params=SHARDS)
def parts(request, tmp_path_factory):
    """Audio and latents of three partitions of one shard each."""
    made = Latents(tmp_path_factory.mktemp("mixed"))
    manifests = []
    for number, (channels, rate_hz) in enumerate(zip(*SHARDS[request.param], strict=True)):
        clips = {f"s{number}k{i}": sound(4000, 10 * number + i, int(c)) for i, c in enumerate(channels)}
        partition = f"train-{number:04d}"
        manifests.append(write_partition(made.audio, [clips], partition=partition, sample_rate_hz=rate_hz))
    commit(made.audio, *manifests)
    for number in range(len(manifests)):
        made.build(f"train-{number:04d}")
    commit_latents(made.audio, made.storage, made.settings)
    return {"audio": SmokePart.newest(made.audio), "latents mel": SmokePart.newest(made.storage)}


def sound(num_frames: int, seed: int, num_channels: int) -> np.ndarray:
    return np.stack([noise(num_frames, seed + 1000 * channel) for channel in range(num_channels)], axis=1)


@pytest.mark.parametrize("numbers", CHOICES, ids=str)
def test_each_choice_of_shards_is_read_without_a_fault(parts, numbers, monkeypatch):
    places = {("train", number, 0) for number in numbers}
    tables = {part: _picked(read.table, places) for part, read in parts.items()}
    monkeypatch.setattr(smoke, "choose", lambda *_, **__: ChosenShards(tables, dict.fromkeys(tables, 0)))
    results = smoke_test(parts, LoaderConfig(num_workers=0, batch_size=4))
    faults = chain.from_iterable(result.faults.values() for result in results.values())
    assert list(chain.from_iterable(faults)) == []
    assert results["audio"].num_joined == 3 * len(numbers)
