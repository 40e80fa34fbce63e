"""Audio shards are opened in groups, and none of a group stays open after an error."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.encoding import shards as encoding_shards
from headrace.encoding.sources import AudioShard, audio_shard
from headrace.errors import StorageError
from headrace.stores.storage import LocalStorage, Storage
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import Latents


def test_a_shard_that_cannot_be_fetched_leaves_none_of_its_group_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of the group are closed, also those whose fetching ends after the error."""
    opened: list[str] = []
    slow = threading.Event()

    @contextmanager
    def fetched(storage: Storage, name: str, field: str) -> Iterator[AudioShard]:
        if "000000-" in name:
            slow.set()
            raise StorageError(f"{name}: the store is gone")
        slow.wait(timeout=60)
        with audio_shard(storage, name, field) as shard:
            opened.append(name)
            try:
                yield shard
            finally:
                opened.remove(name)

    monkeypatch.setattr("headrace.encoding.plans.num_cores", lambda: 4)
    monkeypatch.setattr(encoding_shards, "audio_shard", fetched)
    latents = Latents(tmp_path)
    latents.storage = LocalStorage(tmp_path / "out")
    write_partition(latents.audio, [{f"s{s}k{i}": noise(1600, i) for i in range(3)} for s in range(4)])
    with pytest.raises(StorageError, match="the store is gone"):
        latents.build()
    assert opened == []
