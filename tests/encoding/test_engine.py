"""How batches run on devices: beside each other on a CPU, halved once when memory runs out."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headrace import encoders
from headrace.encoders import EncoderInfo
from headrace.encoding.lanes import Budget
from tests.audio_shards import noise, write_partition
from tests.test_latents import MEL, Latents

NUM_CORES = 3


@pytest.fixture
def cores() -> Iterator[int]:
    """As many cores as a test needs, whatever the machine has."""
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
    budget = Budget(1000)
    budget.halve(1000)
    budget.halve(1000)
    assert (budget.num_frames, budget.halvings) == (500, 1)
    budget.halve(400)
    assert (budget.num_frames, budget.halvings) == (200, 2)
