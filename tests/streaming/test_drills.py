"""Things that go wrong with stores, disks and processes.

Each ends in the right data or a clear error, and nothing needs cleaning up.
"""

import dataclasses
import gzip
import multiprocessing
import os
import shutil
import signal
import time
import warnings

import numpy as np
import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import IntegrityError, SampleError, StorageError
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import check, keep_all, make, wait_for
from tests.support.streaming.fault_server import Fault, fault_server

# A store that works


def test_a_store_is_read_once_and_then_from_the_cache(server, corpus, tmp_path):
    first = check(make(f"{server.uri}/audio", tmp_path), corpus)
    assert first.stats.num_bytes_fetched > 0
    keep_all(first.dataset)
    server.requests.clear()
    second = check(make(f"{server.uri}/audio", tmp_path), corpus)
    assert not [request for request in server.requests if request.path.endswith(".tar")]
    assert second.stats.cache_misses == 0
    assert second.dataset.cache_usage > 0


def test_the_first_batch_comes_by_ranged_reads_of_its_samples(server, tmp_path):
    """Whole shards are held up, yet the first batch arrives."""
    server.fault = lambda request: Fault.STALL if _is_whole_shard(request, server) else None
    batches = iter(StreamingDataLoader(make(f"{server.uri}/audio", tmp_path, download_timeout=600)))
    assert next(batches)["keys"]
    server.fault = lambda request: None
    batches.close()


def _is_whole_shard(request, server):
    if request.method != "GET" or not request.path.endswith(".tar") or request.span is None:
        return False
    first, last = map(int, request.span.removeprefix("bytes=").split("-"))
    return first == 0 and last + 1 == (server.folder / request.path).stat().st_size


def test_get_item_on_a_cold_shard_reads_just_its_bytes(server, corpus, tmp_path):
    dataset = make(f"{server.uri}/audio", tmp_path)
    assert np.array_equal(dataset.get_item(17)["audio"].numpy(), corpus[17].audio())
    tars = [request for request in server.requests if request.path.endswith(".tar")]
    assert len(tars) == 1
    assert not _is_whole_shard(tars[0], server)
    assert not list(tmp_path.glob("*.tar"))


def test_shards_can_be_prepared_and_evicted_by_hand(server, tmp_path):
    dataset = make(f"{server.uri}/audio", tmp_path)
    dataset.prepare_shard(3)
    dataset.prepare_shard(4)
    assert len(list(tmp_path.glob("*.tar"))) == 2
    assert dataset.evict_shard(3)
    assert len(list(tmp_path.glob("*.tar"))) == 1
    assert dataset.evict_coldest_shard()
    assert not list(tmp_path.glob("*.tar"))
    assert dataset.evict_coldest_shard() is None


def test_a_local_remote_is_never_copied_or_evicted(dataset_folder, corpus, tmp_path):
    dataset = make(f"{dataset_folder}/audio", tmp_path / "cache", cache_limit="1kb")
    check(dataset, corpus)
    dataset.prepare_shard(0)
    assert not dataset.evict_shard(0)
    assert dataset.evict_coldest_shard() is None
    assert dataset.cache_usage == 0
    assert len(list((dataset_folder / "audio").glob("train*.tar"))) == 11


@pytest.mark.medium
def test_a_store_and_every_setting_of_the_cache_give_the_batches_of_the_local_copy(server, dataset_folder, tmp_path):
    expected = [batch["keys"] for batch in StreamingDataLoader(make(f"{dataset_folder}/audio"))]
    for number, more in enumerate([{}, {"predownload": 1}, {"cache_limit": "30kb"}, {"download_retry": 0}]):
        loader = StreamingDataLoader(
            make(f"{server.uri}/audio", tmp_path / str(number), **more), num_threads=1 + number
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the small cache
            assert [batch["keys"] for batch in loader] == expected


@pytest.mark.slow
def test_workers_read_from_a_store_without_forking_its_client(server, corpus, tmp_path):
    dataset = make(f"{server.uri}/audio", tmp_path)
    dataset.get_item(0)  # the client of this process is up
    loader = check(dataset, corpus, num_workers=2)
    keep_all(dataset)
    stored = sum(path.stat().st_size for path in server.folder.glob("audio/train*.tar"))
    assert loader.stats.num_bytes_fetched >= stored  # what this process brought for its workers counts
    assert loader.stats.cache_hits + loader.stats.cache_misses > 0


# A store that fails


@pytest.mark.medium
@pytest.mark.parametrize("fault", [Fault.RESET, Fault.ERROR_500, Fault.HALF, Fault.STALL, Fault.FLIP], ids=str)
def test_a_store_that_fails_now_and_then_costs_nothing_but_time(server, corpus, tmp_path, fault):
    if fault is Fault.FLIP:  # only whole shards have a digest; a flipped sample shows when it is decoded
        hits = iter(range(3))
        server.fault = lambda r: fault if _is_whole_shard(r, server) and next(hits, None) is not None else None
    else:
        server.fail_first(fault, 3)
    patience = {"download_timeout": 0.5, "download_retry": 8} if fault is Fault.STALL else {"download_retry": 4}
    check(make(f"{server.uri}/audio", tmp_path, **patience), corpus)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.ERROR_500, Fault.HALF, Fault.STALL], ids=str)
def test_a_store_that_keeps_failing_is_an_error_within_seconds(server, tmp_path, fault):
    server.fault = lambda request: fault if request.path.endswith(".tar") else None
    dataset = make(f"{server.uri}/audio", tmp_path, download_retry=1)
    if fault is Fault.STALL:
        _lose_patience(dataset, 0.3)
    start = time.monotonic()
    with pytest.raises(StorageError, match=r"train_.*\.tar: failed 2 times"):
        list(StreamingDataLoader(dataset))
    assert time.monotonic() - start < 30


def _lose_patience(dataset, seconds):
    """Requests for shards may take this long; those before, which a busy machine may hold up, took what they needed."""
    access = dataset.reading.readers[0].primary
    for shard in range(dataset._streams.num_shards):
        access.index(shard)
    storage = access.shards.storage
    object.__setattr__(storage, "transfer", dataclasses.replace(storage.transfer, timeout_seconds=seconds))
    access.shards.storage._client.clear()


@pytest.mark.medium
def test_a_server_that_stalls_at_the_start_is_an_error_too(server, tmp_path):
    server.fault = lambda request: Fault.STALL
    start = time.monotonic()
    with pytest.raises(StorageError, match="failed 2 times"):
        make(f"{server.uri}/audio", tmp_path, download_timeout=0.3, download_retry=1)
    assert time.monotonic() - start < 30


def test_a_shard_with_a_wrong_digest_never_enters_the_cache(server, tmp_path):
    server.fault = lambda request: Fault.FLIP if _is_whole_shard(request, server) else None
    dataset = make(f"{server.uri}/audio", tmp_path, download_retry=1)
    with pytest.raises(IntegrityError, match="SHA-256"):
        dataset.prepare_shard(0)
    assert not list(tmp_path.glob("*.tar"))
    server.fault = lambda request: None
    dataset.prepare_shard(0)
    assert len(list(tmp_path.glob("*.tar"))) == 1


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:.*cache_limit")  # batches under way may take all the room
def test_compressed_shards_take_turns_in_a_cache_that_holds_few(tmp_path):
    write_dataset(tmp_path, {"train": clips(53)})
    for path in sorted(tmp_path.glob("audio/*.tar")):
        (tmp_path / "zipped").mkdir(exist_ok=True)
        (tmp_path / f"zipped/{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    largest = max(path.stat().st_size for path in tmp_path.glob("audio/*.tar"))
    dataset = StreamingDataset(
        remote=f"{tmp_path}/zipped", batch_size=4, local=str(tmp_path / "cache"), cache_limit=3 * largest
    )
    for _ in range(2):
        assert sum(bool(key) for batch in StreamingDataLoader(dataset) for key in batch["keys"]) == 53


def test_a_shard_that_is_gone_from_the_store_is_named(server, dataset_folder, tmp_path):
    copy = tmp_path / "copy"  # the fixture's folder is other tests' too
    shutil.copytree(dataset_folder / "audio", copy / "audio")
    victim = sorted((copy / "audio").glob("train*.tar"))[2]
    victim.unlink()
    server.folder = copy
    with pytest.raises(SampleError, match=victim.name):
        list(StreamingDataLoader(make(f"{server.uri}/audio", tmp_path / "cache")))


# A cache that cannot be used


@pytest.mark.parametrize("limit", ["1kb", "12kb", "30kb"])
def test_a_limit_smaller_than_need_costs_speed_alone(server, corpus, tmp_path, limit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = check(make(f"{server.uri}/audio", tmp_path, cache_limit=limit), corpus)
    assert len([w for w in caught if f"{tmp_path}: " in str(w.message) and "cache_limit" in str(w.message)]) <= 1
    assert sum(map(_size, tmp_path.glob("*.tar"))) <= int(limit.removesuffix("kb")) * 1024
    assert loader.stats.num_bytes_fetched > 0


def _size(path):
    """0 where a download that is still under way has evicted it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_a_cache_folder_that_cannot_be_made_costs_speed_and_one_warning(server, corpus, tmp_path):
    (tmp_path / "cache").write_text("a file is in the way")  # root ignores permissions, so this is how to refuse it
    with pytest.warns(UserWarning, match="local=") as caught:
        check(make(f"{server.uri}/audio", tmp_path / "cache"), corpus)
    assert len([w for w in caught if str(tmp_path) in str(w.message)]) == 1


def test_a_full_cache_disk_costs_speed_and_one_warning(server, corpus, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.warns(UserWarning, match="No space left"):
        check(make(f"{server.uri}/audio", tmp_path), corpus)
    assert not list(tmp_path.glob("*.tar"))


# Processes that die, and that share


def _train(uri, cache, corpus, environment, times):
    os.environ.update(environment)
    for _ in range(times):
        check(make(uri, cache, cache_limit="40kb"), corpus)


@pytest.mark.slow
def test_two_jobs_share_one_cache_under_its_limit(server, corpus, tmp_path):
    context = multiprocessing.get_context("spawn")
    jobs = [
        context.Process(
            target=_train, args=(f"{server.uri}/audio", tmp_path, corpus, server.environment(), 3), daemon=True
        )
        for _ in range(2)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0, 0]
    assert sum(path.stat().st_size for path in tmp_path.glob("*.tar")) <= 40 * 1024


@pytest.mark.slow
def test_a_rank_killed_in_mid_download_leaves_nothing_that_hurts(dataset_folder, corpus, tmp_path, monkeypatch):
    with fault_server(dataset_folder) as slow:
        for name, value in slow.environment().items():
            monkeypatch.setenv(name, value)
        slow.fault = lambda request: Fault.STALL if _is_whole_shard(request, slow) else None
        context = multiprocessing.get_context("spawn")
        victim = context.Process(
            target=_train, args=(f"{slow.uri}/audio", tmp_path, corpus, slow.environment(), 1000), daemon=True
        )
        victim.start()
        wait_for(lambda: any(tmp_path.glob(".*.part")))
        victim.kill()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        assert list(tmp_path.glob(".*.part"))
        slow.fault = lambda request: None
        keep_all(check(make(f"{slow.uri}/audio", tmp_path), corpus).dataset)
        wait_for(lambda: not list(tmp_path.glob(".*.part")))  # a download that comes late finds nothing to do
        assert len(list(tmp_path.glob("*.tar"))) == 11


@pytest.mark.medium
def test_a_run_is_undisturbed_by_a_new_snapshot(tmp_path):
    write_dataset(tmp_path, {"train": clips(20)})
    dataset = make(f"{tmp_path}/audio")
    batches = iter(StreamingDataLoader(dataset))
    seen = list(next(batches)["keys"])
    write_dataset(tmp_path, {"train": clips(40)})
    seen += [key for batch in batches for key in batch["keys"] if key]
    assert sorted(seen) == sorted(clip.key for clip in clips(20))


def test_all_latents_missing_a_sample_is_an_error_that_names_it(dataset_folder, tmp_path):
    shutil.copytree(dataset_folder, tmp_path / "out")
    victim = min((tmp_path / "out/latents/crepe").glob("latent_train*.tar"))
    victim.unlink()
    loader = StreamingDataLoader(
        make(f"{tmp_path}/out/audio", latents=[f"{tmp_path}/out/latents/crepe"], shuffle=False)
    )
    with pytest.raises(SampleError, match=victim.name):
        list(loader)
