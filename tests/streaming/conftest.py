"""Small data sets that many tests read."""

import pytest

from headrace.streaming.samples.stream_reader import StreamReader
from tests.support.streaming.corpus import Clip, clips, write_dataset
from tests.support.streaming.fault_server import fault_server


@pytest.fixture(scope="session")
def corpus() -> list[Clip]:
    """The training split."""
    return clips(53)


@pytest.fixture(scope="session")
def dataset_folder(tmp_path_factory, corpus):
    """An output with audio and latents: 53 training samples in 11 shards, 7 for testing."""
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder, {"train": corpus, "test": clips(7, first=200)}, latents=True)
    return folder


@pytest.fixture
def server(dataset_folder, monkeypatch):
    """Output of `dataset_folder` behind a server that a test can make fail."""
    with fault_server(dataset_folder) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        yield face


@pytest.fixture
def short_pauses(monkeypatch):
    """Make the pauses before a further attempt a hundredth as long, in this process."""
    monkeypatch.setattr("headrace.stores.retry_policy._FIRST_PAUSE_SECONDS", 0.001)


@pytest.fixture
def asked(monkeypatch):
    """Numbers of samples whose lengths were read from indexes, call by call."""
    counts = []
    read = StreamReader.lengths
    monkeypatch.setattr(StreamReader, "lengths", lambda self, ids: counts.append(len(ids)) or read(self, ids))
    return counts
