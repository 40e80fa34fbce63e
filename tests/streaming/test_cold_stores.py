"""The first epoch from a store: each index once for each host, and each byte of the shards about once."""

import threading
import time
from collections import Counter

import pytest

from headrace import StreamingDataLoader, World
from headrace.streaming.batches.assembler import Assembler
from headrace.streaming.run.prefetch import Prefetcher
from headrace.streaming.shards.access import ShardAccess
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import check, keep_all, make
from tests.support.streaming.fault_server import fault_server

pytestmark = pytest.mark.medium

CORPUS = clips(320, frames=(20_000, 21_000))
LARGE_BYTES = 200_000  # more than some samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """320 samples of 40 KB in 40 shards."""
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder, {"train": CORPUS}, per_shard=8)
    return folder


@pytest.fixture
def far(folder, monkeypatch):
    """A store over this folder in which everything takes a while, and whole shards take longer."""
    with fault_server(folder) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        face.fault = lambda request: time.sleep(0.06 if num_bytes(request) > LARGE_BYTES else 0.005)
        yield face


def num_bytes(request):
    """Bytes of a shard that the request is for."""
    if not request.path.endswith(".tar"):
        return 0
    first, last = map(int, request.span.removeprefix("bytes=").split("-"))
    return last + 1 - first


@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_index_is_fetched_once_by_the_ranks_and_workers_of_a_host(far, tmp_path, num_workers):
    def read(rank):
        dataset = make(f"{far.uri}/audio", tmp_path / "cache", world=World(rank, 2))
        for _ in StreamingDataLoader(dataset, num_workers=num_workers):
            pass

    ranks = [threading.Thread(target=read, args=(rank,)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    counts = Counter(request.path for request in far.requests if request.path.endswith(".idx"))
    assert set(counts.values()) == {1}
    assert len(counts) == 40
    assert not list((tmp_path / "cache").glob(".*.idx.lock"))


def test_a_cold_epoch_moves_each_byte_about_once(far, folder, tmp_path, monkeypatch):
    """Though no download begins before all batches have been read by ranges."""
    dataset = make(f"{far.uri}/audio", tmp_path / "cache", batch_size=4)
    access = dataset._streams.reading.readers[0].primary
    for shard in range(dataset._streams.num_shards):
        access.expect(shard)
    with monkeypatch.context() as patch:
        patch.setattr(ShardAccess, "fetch", lambda *_: False)
        check(dataset, CORPUS)
    assert sum(num_bytes(request) > 0 for request in far.requests) > 3 * 40
    keep_all(dataset)
    moved = sum(map(num_bytes, far.requests))
    size = sum(path.stat().st_size for path in folder.glob("audio/*.tar"))
    assert size <= moved <= 1.05 * size


def test_the_first_batch_has_the_connection_for_itself(far, tmp_path, monkeypatch):
    """Neither a download nor another batch is asked for before it is there."""
    opened, under_way, asked, is_there = [], [], [], threading.Event()
    opening, beginning = Assembler.open, Prefetcher.begin

    def open_alone(*args):
        opened.append(args)
        if len(opened) > 1:
            is_there.wait(60)
        made = opening(*args)
        under_way.append(len(opened))
        return made

    def begin(prefetcher):
        asked.append(list(map(num_bytes, far.requests)))
        beginning(prefetcher)

    monkeypatch.setattr(Assembler, "open", open_alone)
    monkeypatch.setattr(Prefetcher, "begin", begin)
    batches = iter(StreamingDataLoader(make(f"{far.uri}/audio", tmp_path / "cache", batch_size=4)))
    next(batches)
    is_there.set()
    batches.close()
    assert under_way[0] == 1
    assert 1 <= sum(size > 0 for size in asked[0]) <= 4
    assert max(asked[0]) <= LARGE_BYTES
