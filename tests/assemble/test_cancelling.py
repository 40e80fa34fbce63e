"""Work that is cancelled ends with the samples, batches and shards that are under way."""

import threading

import pytest

from headrace.assemble.audio import build_partition
from headrace.assemble.recording_encoder import RecordingEncoder
from headrace.assemble.shard_settings import ShardSettings
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.ordered import TaskThreads
from headrace.sources.sources import open_source
from headrace.verification import verify
from headrace.verification.shard_check import check_shard
from tests.support.builds import Project
from tests.support.latent_builds import Broken, Latents

NUM_THREADS = 2
NUM_CLIPS = 60


class Cancelled(BaseException):
    """Exception that Dagster raises in the main thread: not an `Exception`."""


class Gate:
    """Counts calls, and lets no more than `first` of them pass until it is opened."""

    def __init__(self, first: int) -> None:
        self.num_calls, self._first, self._open, self._lock = 0, first, threading.Event(), threading.Lock()

    def open_soon(self) -> None:
        threading.Timer(0.2, self._open.set).start()  # after the exception has reached the pools

    def __call__(self) -> None:
        with self._lock:
            self.num_calls += 1
            is_late = self.num_calls > self._first
        if is_late:
            assert self._open.wait(30)


@pytest.fixture
def gate():
    return Gate(first=1)


def cancel(gate: Gate):
    def progress(done: object) -> None:
        if done != 0:
            gate.open_soon()
            raise Cancelled

    return progress


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path, layout=Partitioning({"train": 1.0}, {"train": 1}, NUM_CLIPS))
    for number in range(NUM_CLIPS):
        project.put(f"clip{number:02d}.wav")
    return project


@pytest.mark.medium
def test_encoding_of_recordings(project, gate, monkeypatch):
    encode_task = RecordingEncoder.encode

    def encode(self, task):
        gate()
        return encode_task(self, task)

    monkeypatch.setattr(RecordingEncoder, "encode", encode)
    source = open_source(project.folder / "source")
    update_catalog(project.config(), source, None, project.output)
    recordings = partition_recordings(project.output, project.config(), "train-0000")
    settings = ShardSettings(project.audio, ShardSize(NUM_CLIPS))
    with pytest.raises(Cancelled):
        build_partition(
            "train-0000", recordings, settings, source, project.shards, num_threads=NUM_THREADS, progress=cancel(gate)
        )
    assert gate.num_calls <= 1 + NUM_THREADS


def test_samples_of_one_recording(gate):
    """A task of many samples ends between two of them."""
    with TaskThreads(1, "test") as threads:
        encoder = RecordingEncoder(None, None, threads.go_on)
        done = threads.submit(list, encoder._while_wanted(number for number in range(3)))
        assert done.result() == [0, 1, 2]
    begun = threading.Event()

    def samples():
        for number in range(NUM_CLIPS):
            begun.set()
            gate()
            yield number

    def cancelled():
        with TaskThreads(1, "test") as threads:
            encoder = RecordingEncoder(None, None, threads.go_on)
            threads.submit(list, encoder._while_wanted(samples()))
            assert begun.wait(30)
            cancel(gate)(None)

    with pytest.raises(Cancelled):
        cancelled()
    assert gate.num_calls <= 3


@pytest.mark.medium
def test_batches_of_an_encoder(project, gate, tmp_path):
    project.build()
    latents = Latents(tmp_path)
    latents.audio = project.shards
    broken = Broken({})
    slow = broken.encode

    class Slow(Broken):
        def encode(self, batch, lengths):
            gate()
            return slow(batch, lengths)

    latents.encoders = lambda: [Slow({})]
    latents._count = cancel(gate)
    with pytest.raises(Cancelled):
        latents.build(batch_seconds=0.05, num_threads=NUM_THREADS)
    assert gate.num_calls <= 1 + 16


@pytest.mark.medium
def test_shards_of_a_verification(project, gate, monkeypatch):
    project.layout = Partitioning({"train": 1.0}, {"train": 1}, 2)
    project.build()

    def check(*arguments):
        gate()
        return check_shard(*arguments)

    monkeypatch.setattr(verify, "check_shard", check)
    target = verify.find_target(str(project.folder / "output/audio"))
    with pytest.raises(Cancelled):
        verify.verify(target, verify.Depth(NUM_THREADS), cancel(gate))
    assert gate.num_calls <= 1 + NUM_THREADS
