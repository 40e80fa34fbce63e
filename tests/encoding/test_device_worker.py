"""Streams of a GPU, with fakes for CUDA: made once, given back, and known to every tensor that two of them use."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
import torch

from headrace import encoders
from headrace.encoding import device_worker
from headrace.encoding.device_worker import BatchLimit, DeviceWorker
from headrace.encoding.reading import EncodingJob
from tests.support.latent_builds import MEL

NUM_BATCHES = 5


class Stream:
    """A stream that does nothing."""

    made = 0

    def __init__(self, device: torch.device) -> None:
        Stream.made += 1

    def wait_stream(self, other: object) -> None:
        """See `torch.cuda.Stream`."""

    def wait_event(self, event: object) -> None:
        """See `torch.cuda.Stream`."""

    def synchronize(self) -> None:
        """See `torch.cuda.Stream`."""


class Event:
    """An event that takes no time."""

    def __init__(self, *, enable_timing: bool) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: object) -> None:
        """See `torch.cuda.Event`."""

    def elapsed_time(self, other: object) -> float:
        """See `torch.cuda.Event`."""
        return 1.0


class OnDevice:
    """A tensor that notes the stream it was made on, and those it was recorded on."""

    shape, dtype = (1, 1, 1), torch.float16

    def __init__(self, current: list[object]) -> None:
        self.current, self.made_on, self.recorded = current, current[-1], []

    def to(self, device: torch.device, *, non_blocking: bool) -> "OnDevice":
        """See `torch.Tensor`."""
        return OnDevice(self.current)

    def record_stream(self, stream: object) -> None:
        """See `torch.Tensor`."""
        self.recorded.append(stream)


class Pinned:
    """A tensor in page-locked memory."""

    def copy_(self, other: OnDevice, *, non_blocking: bool) -> OnDevice:
        """See `torch.Tensor`."""
        return other


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The current stream, last of a list; CUDA is replaced by fakes."""
    stack: list[object] = ["default"]

    @contextmanager
    def on(stream: object) -> Iterator[None]:
        stack.append(stream)
        try:
            yield
        finally:
            stack.pop()

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(device_worker.torch, "empty", lambda *_, **__: Pinned())
    monkeypatch.setattr(Stream, "made", 0)
    monkeypatch.setattr(device_worker, "_made_lanes", cache(device_worker._Lanes))
    return stack


class Traced(DeviceWorker):
    """A worker on a GPU whose encoder gives fakes; a batch may run out of memory."""

    current: list[object]
    is_full = False

    def _compute(self, job: EncodingJob, audio: OnDevice, lengths: torch.Tensor) -> list[device_worker._Result]:
        self.audio = audio
        assert self.current[-1] is self._lanes.computing
        if self.is_full:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [device_worker._Result(OnDevice(self.current), OnDevice(self.current), lengths)]


@pytest.fixture
def worker(current: list[object]) -> Traced:
    encoder = encoders.load("log_mel", MEL)
    encoder.device = "cuda:0"
    worker = Traced(encoder, torch.float16, BatchLimit(1), num_cores=1)
    worker.current = current
    return worker


def _run(worker: Traced) -> tuple[OnDevice, OnDevice]:
    ((found,), _) = worker._on_cuda(None, OnDevice(worker.current), torch.ones(1))
    return found.values, found.flaws


def test_streams_are_made_once_for_a_device_and_given_back_whatever_a_batch_comes_to(worker: Traced) -> None:
    made = Stream.made
    assert made == 1 + worker.num_slots
    for worker.is_full in (False, True) * NUM_BATCHES:
        if worker.is_full:
            with pytest.raises(torch.OutOfMemoryError):
                _run(worker)
        else:
            _run(worker)
    assert Stream.made == made
    assert worker._lanes.copying.qsize() == worker.num_slots


def test_every_tensor_is_recorded_on_the_second_stream_that_uses_it(worker: Traced) -> None:
    hidden, flaws = _run(worker)
    computing = worker._lanes.computing
    assert worker.audio.recorded == [computing]
    assert worker.audio.made_on is not computing
    for result in (hidden, flaws):
        assert result.made_on is computing
        assert result.recorded == [worker.audio.made_on]  # the stream that copies


def test_a_batch_that_runs_out_of_memory_has_recorded_its_audio_before(worker: Traced) -> None:
    """Its memory is freed while the error unwinds, when the computing stream may still read it."""
    worker.is_full = True
    with pytest.raises(torch.OutOfMemoryError):
        _run(worker)
    assert worker.audio.recorded == [worker._lanes.computing]
