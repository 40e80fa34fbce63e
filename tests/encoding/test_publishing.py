"""Writing shards does not keep the devices waiting."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor

from headrace import encoders
from headrace.encoding import publisher, publishing
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import MEL, Latents

pytestmark = pytest.mark.medium

SHARDS, CLIPS = 16, 4
"""Of 0.1 s in batches of 0.1 s: two groups of 32 batches."""


class Counting:
    """A log-mel encoder that says when it has encoded everything."""

    info = encoders.load("log_mel", MEL).info

    def __init__(self) -> None:
        self._own = encoders.load("log_mel", MEL)
        self.left = SHARDS * CLIPS
        self.has_ended = threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        self.left -= len(batch)
        if self.left <= 0:
            self.has_ended.set()
        return self._own.encode(batch, lengths)


def _latents(root: Path, encoder: object) -> Latents:
    latents = Latents(root)
    shards = [{f"k{shard:02d}{i}": noise(1600, shard) for i in range(CLIPS)} for shard in range(SHARDS)]
    write_partition(latents.audio, shards)
    latents.encoders = lambda: [encoder]
    return latents


def _before_publishing(monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]) -> None:
    publish = publishing.ShardWriter.publish

    def waited(writer: publishing.ShardWriter, *args: object) -> object:
        wait()
        return publish(writer, *args)

    monkeypatch.setattr(publishing.ShardWriter, "publish", waited)


def test_devices_go_on_while_all_finished_shards_wait_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their latents in memory: the bound is one of bytes."""
    encoder, waited = Counting(), []
    latents = _latents(tmp_path, encoder)
    _before_publishing(monkeypatch, lambda: waited.append(encoder.has_ended.wait(60)))
    built = latents.build(batch_seconds=0.1)
    assert waited == [True] * SHARDS
    assert built.manifest.manifest.num_samples == SHARDS * CLIPS


def test_devices_wait_when_too_much_waits_to_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shard is over the limit, so that the second group is not encoded before the first one is written."""
    monkeypatch.setattr(publisher, "_WAITING_BYTES", 1)
    encoder, left = Counting(), []
    latents = _latents(tmp_path, encoder)
    _before_publishing(monkeypatch, lambda: left.append(encoder.left))
    latents.build(batch_seconds=0.1)
    assert left[0] > 0


def test_samples_are_saved_before_their_shard_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all the work would come at the end of a group."""
    has_saved = threading.Event()
    saved_outputs = publishing.saved_outputs

    def saved(*args: object) -> object:
        has_saved.set()
        return saved_outputs(*args)

    class Last(Counting):
        def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            latents = super().encode(batch, lengths)
            assert self.left or has_saved.wait(60)
            return latents

    monkeypatch.setattr(publishing, "saved_outputs", saved)
    monkeypatch.setattr(f"{__name__}.SHARDS", 1)
    _latents(tmp_path, Last()).build(batch_seconds=0.1)
