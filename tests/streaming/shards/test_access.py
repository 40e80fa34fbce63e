"""Requests to a store when only some samples of a shard are needed, and the counts of these requests."""

import numpy as np
import pytest

from headrace import StreamingDataLoader
from headrace.stores.storage import Transfer, open_storage
from headrace.streaming.cache.coalesce import coalesce
from headrace.streaming.shards import access
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import make
from tests.support.streaming.fault_server import fault_server

KIB = 1 << 10


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A store with one object of 5 MiB."""
    (tmp_path / "large.bin").write_bytes(np.random.default_rng(0).bytes(5 << 20))
    with fault_server(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


def test_the_store_sends_the_ranges_that_were_planned_and_no_byte_more(large):
    transfer = Transfer()
    spans = [(start * KIB, (start + 100) * KIB) for start in range(0, 5120, 640)]
    blobs = open_storage(large.uri, transfer).read_ranges("large.bin", spans)
    content = (large.folder / "large.bin").read_bytes()
    assert blobs == [content[start:stop] for start, stop in spans]
    assert sorted(r.span for r in large.requests) == sorted(f"bytes={start}-{stop - 1}" for start, stop in spans)
    assert transfer.requests.counts().num_bytes == 800 * KIB


@pytest.fixture
def spread(tmp_path, monkeypatch):
    """A store with one shard of eight samples, each of about 60 KiB."""
    write_dataset(tmp_path, {"train": clips(8, frames=(30_000, 31_000))}, per_shard=8)
    with fault_server(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.mark.parametrize(
    ("plan", "num_requests"), [((0, 1 << 20), 4), ((256 * KIB, 1 << 20), 1), ((256 * KIB, 200 * KIB), 2)]
)
def test_every_second_sample_comes_as_it_was_planned(spread, tmp_path, monkeypatch, plan, num_requests):
    gap, most = plan

    monkeypatch.setattr(access, "coalesce", lambda spans, **_: coalesce(spans, max_gap_bytes=gap, max_bytes=most))
    dataset = make(f"{spread.uri}/audio", tmp_path / "cache", shuffle=False)
    reader = dataset.reading.readers[0]
    reader.primary.index(0)
    spread.requests.clear()
    before = dataset.reading.traffic.counts()
    rows = reader.rows(np.arange(0, 8, 2), range(4), patient=False)
    counts = dataset.reading.traffic.counts() - before
    spans = [tuple(map(int, request.span.removeprefix("bytes=").split("-"))) for request in spread.requests]
    assert counts.num_requests == len(spans) == num_requests
    assert counts.num_bytes_fetched == sum(last + 1 - first for first, last in spans)
    needed = sum(max(row.primary.spans) - min(row.primary.spans) for row in rows)
    assert counts.num_bytes_needed == needed
    assert (counts.num_bytes_fetched == needed) == (num_requests == 4)


def test_a_sample_larger_than_a_request_comes_in_pieces(spread, tmp_path, monkeypatch):
    pieces = access.pieces
    monkeypatch.setattr(access, "pieces", lambda start, stop: pieces(start, stop, 10 * KIB))
    dataset = make(f"{spread.uri}/audio", tmp_path / "cache", shuffle=False)
    found = dataset.get_item(3)["audio"].numpy()
    assert np.array_equal(found, clips(8, frames=(30_000, 31_000))[3].audio())
    spans = [request.span for request in spread.requests if request.path.endswith(".tar")]
    assert len(set(spans)) == len(spans) > 5


@pytest.mark.parametrize("is_expected", [True, False])
def test_no_byte_of_an_expected_shard_is_fetched_twice(spread, tmp_path, is_expected):
    """Neither by two readers whose ranges overlap, nor by the download that follows."""
    datasets = [make(f"{spread.uri}/audio", tmp_path / "cache", shuffle=False) for _ in range(2)]  # two processes
    readers = [dataset.reading.readers[0] for dataset in datasets]
    if is_expected:
        readers[0].primary.expect(0)
    for reader, samples in zip(readers, ([1, 3, 4], [3, 4, 6]), strict=True):
        for row in reader.rows(np.array(samples), samples, patient=False):
            sample = row.primary
            audio = sample.opened().read(*sample.span(sample.columns.audio[0].columns[0][0]))
            assert bytes(audio) == clips(8, frames=(30_000, 31_000))[row.position].flac()
    assert readers[1].primary.fetch(0)
    (tar,) = (spread.folder / "audio").glob("*.tar")
    (kept,) = (tmp_path / "cache").glob("*.tar")
    assert kept.read_bytes() == tar.read_bytes()
    asked = [range_of(request) for request in spread.requests if request.path.endswith(".tar")]
    assert (sum(stop - start for start, stop in asked) == kept.stat().st_size) == is_expected


def range_of(request):
    """First byte of the request, and the one after its last."""
    first, last = map(int, request.span.removeprefix("bytes=").split("-"))
    return first, last + 1


def test_a_shard_that_is_here_or_compressed_is_not_expected(spread, tmp_path, monkeypatch):
    access_to = make(f"{spread.uri}/audio", tmp_path / "cache", shuffle=False).reading.readers[0].primary
    monkeypatch.setattr(access_to, "name", lambda shard: "a.tar.gz")
    access_to.expect(0)
    monkeypatch.undo()
    access_to.fetch(0)
    access_to.expect(0)
    assert not list((tmp_path / "cache").glob(".*.ranges"))


def test_counters_go_on_when_a_state_is_loaded(server, tmp_path):
    loader = StreamingDataLoader(make(f"{server.uri}/audio", tmp_path))
    batches = iter(loader)
    next(batches)
    before, state = loader.stats, loader.state_dict()
    batches.close()
    loader.load_state_dict(state)
    after = loader.stats
    for name in ("cache_misses", "num_requests", "num_bytes_fetched", "num_bytes_needed"):
        assert getattr(after, name) >= getattr(before, name) > 0
