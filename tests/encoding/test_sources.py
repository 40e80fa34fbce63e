"""Tests of `headrace.encoding.sources`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.encoding import shards as encoding_shards
from headrace.encoding.sources import AudioShard, audio_shard
from headrace.stores.storage import Storage
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import Latents


def test_audio_shards_of_a_group_are_fetched_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for another one to be fetched at the same time."""
    together = threading.Barrier(2)

    @contextmanager
    def fetched(storage: Storage, name: str, field: str) -> Iterator[AudioShard]:
        together.wait(timeout=60)  # raises when nobody comes
        with audio_shard(storage, name, field) as shard:
            yield shard

    monkeypatch.setattr("headrace.encoding.plans.num_cores", lambda: 2)
    monkeypatch.setattr(encoding_shards, "audio_shard", fetched)
    latents = Latents(tmp_path)
    write_partition(latents.audio, [{f"s{s}k{i}": noise(1600, i) for i in range(3)} for s in range(4)])
    assert len(latents.build().manifest.manifest.shards) == 4
