"""Batches run on devices: beside each other on a CPU, halved once when memory runs out."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.encoders import EncoderInfo
from headrace.encoding.device_worker import BatchLimit
from headrace.errors import BuildError, StorageError
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import noise, write_partition
from tests.support.latent_builds import MEL, Latents

NUM_CORES = 3


@pytest.fixture
def cores() -> Iterator[int]:
    """Give a test a fixed number of cores, regardless of the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(NUM_CORES)
    yield NUM_CORES
    torch.set_num_threads(before)


class Meeting:
    """A log-mel encoder that notes how many batches it is given at a time, and on how many threads each runs."""

    def __init__(self, expected: int, *, is_concurrent: bool) -> None:
        self._own = encoders.load("log_mel", MEL)
        info = self._own.info
        self.info = EncoderInfo(info.context, info.window, info.overlap, is_concurrent=is_concurrent)
        self._everybody = threading.Barrier(expected)
        self._inside = 0
        self.most = 0
        self.num_threads: set[int] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        self._inside += 1
        self.most = max(self.most, self._inside)
        self.num_threads.add(torch.get_num_threads())
        self._everybody.wait(timeout=60)  # raises when as many as expected do not come
        self._inside -= 1
        return self._own.encode(batch, lengths)


def _build(encoder: Meeting, root: Path, num_batches: int) -> Latents:
    latents = Latents(root)
    write_partition(latents.audio, [{f"k{i}": noise(1600, i) for i in range(num_batches)}])
    latents.encoders = lambda: [encoder]
    latents.last = latents.build(batch_seconds=0.1)
    return latents


def _new_threads(before: list[threading.Thread]) -> list[str]:
    """Names of the encoding's threads that are alive and were not before: loaders have such names, too."""
    own = tuple(f"headrace-{name}" for name in ("open", "decode", "encode", "publish"))
    found = [thread for thread in threading.enumerate() if thread not in before]
    return [thread.name for thread in found if thread.name.startswith(own)]


def test_a_cpu_runs_a_batch_on_each_core(tmp_path: Path, cores: int) -> None:
    """All at once; torch's own number of threads is as before when it is done."""
    encoder = Meeting(cores, is_concurrent=True)
    built = _build(encoder, tmp_path, num_batches=2 * cores)
    assert encoder.num_threads == {1}
    assert built.last.stats.num_batches == 2 * cores
    assert built.last.stats.busy_share <= 1
    assert torch.get_num_threads() == cores


def test_an_encoder_that_is_not_concurrent_has_all_cores_for_one_batch(tmp_path: Path, cores: int) -> None:
    """A user's own encoder need not be thread-safe."""
    encoder = Meeting(1, is_concurrent=False)
    _build(encoder, tmp_path, num_batches=4)
    assert encoder.most == 1
    assert encoder.num_threads == {cores}


def test_batches_that_fail_together_halve_the_budget_once() -> None:
    """The second one ran before the first had failed: it says nothing of the smaller size."""
    budget = BatchLimit(1000)
    budget.halve(1000)
    budget.halve(1000)
    assert (budget.num_frames, budget.halvings) == (500, 1)
    budget.halve(400)
    assert (budget.num_frames, budget.halvings) == (200, 2)


def test_an_error_ends_every_thread_before_it_reaches_the_caller(tmp_path: Path, cores: int) -> None:
    """Else they would read files that are closed, and hold the GPU while the next partition wants it."""

    class Broken(Meeting):
        def encode(self, batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
            raise ValueError("no more")

    before = threading.enumerate()
    with pytest.raises(BuildError, match="no more") as caught:
        _build(Broken(1, is_concurrent=True), tmp_path, num_batches=20)
    assert caught.value.__traceback__ is not None  # it holds on to every frame
    assert _new_threads(before) == []


def test_a_disk_that_is_full_ends_every_thread_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is not the encoder's: its threads get the signal to stop."""

    def full(self: LocalStorage, path: str, data: object) -> None:
        raise StorageError(f"{path}: No space left on device")

    latents = Latents(tmp_path)
    write_partition(latents.audio, [{f"s{s}k{i}": noise(1600, i) for i in range(3)} for s in range(8)])
    monkeypatch.setattr(LocalStorage, "write", full)
    before = threading.enumerate()
    with pytest.raises(StorageError) as caught:
        latents.build(batch_seconds=0.1)
    assert caught.value.__traceback__ is not None
    assert _new_threads(before) == []


def test_torch_has_its_threads_again_when_the_last_of_engines_that_overlap_ends():
    from headrace.encoding.engine import _TORCH_THREADS

    before = torch.get_num_threads()
    with _TORCH_THREADS.kept():
        torch.set_num_threads(before + 1)
        with _TORCH_THREADS.kept():
            assert _TORCH_THREADS.number == before  # an engine that begins now has as many as the first
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == _TORCH_THREADS.number == before
