"""Files are closed by those who opened them, without Python's cycle collector."""

import contextlib
import gc
import shutil
import sys
import threading
from pathlib import Path

import pytest

from headrace import FrameBudget, LengthBuckets, StreamingDataLoader, collate
from headrace.errors import HeadraceError
from headrace.streaming.cache import opened as shard_module
from headrace.streaming.cache.opened import FileShard
from tests.support.streaming.drills import keep_all, make, wait_for
from tests.support.streaming.fault_server import Fault

DESCRIPTORS = Path("/proc/self/fd")
BY_LENGTH = {"buckets": LengthBuckets(2), "budget": FrameBudget(4_000, batch_multiple=4, window_samples=8)}
SETTINGS = {
    "audio": {},
    "joined": {"latents": "latents/crepe"},
    "latents": {"remote": "latents/crepe"},
    **{name: {"batching": batching} for name, batching in BY_LENGTH.items()},
}


@pytest.fixture(scope="module", autouse=True)
def nothing_older():
    """Exempt what other files left from garbage collection: each test collects twice."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def opened():
    """Count the open files of this process, shards and all others, while no cycle is collected."""
    gc.collect()
    gc.disable()
    yield lambda: len(list(DESCRIPTORS.iterdir()))
    gc.enable()


@pytest.fixture(params=SETTINGS)
def dataset(request, dataset_folder, tmp_path):
    settings = SETTINGS[request.param]
    latents = [f"{dataset_folder}/{settings['latents']}"] if "latents" in settings else []
    more = {"batching": settings["batching"]} if "batching" in settings else {}
    for _ in range(2):  # the first counts lengths; the second maps the file of counts, for as long as it lives
        made = make(
            f"{dataset_folder}/{settings.get('remote', 'audio')}", tmp_path, batch_size=4, latents=latents, **more
        )
        assert made.num_batches > 3
    return made


def begun(loader, num_batches=3):
    batches = iter(loader)
    for _ in range(num_batches):
        next(batches)
    return batches


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_six_loaded_states_leave_no_more_open_than_the_first(dataset, opened, num_workers):
    before = opened()
    loader = StreamingDataLoader(dataset, num_workers=num_workers)
    batches = begun(loader)
    state, counts = loader.state_dict(), []
    for _ in range(6):
        loader.load_state_dict(state)
        batches = begun(loader)
        counts.append(opened())
    most = before + 2 * 2 * 11 + 20  # a batch's shards for each that is under way, or pipes and slots
    assert max(counts) <= most
    del batches
    assert opened() <= before


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_an_iterator_that_is_closed_dropped_or_at_its_end_leaves_nothing_open(dataset, opened, num_workers):
    loader = StreamingDataLoader(dataset, num_workers=num_workers)
    before = opened()
    begun(loader).close()
    assert opened() <= before
    batches = begun(loader)
    assert opened() > before
    del batches
    assert opened() <= before
    for _ in loader:
        pass
    assert opened() <= before


def test_a_dataset_that_was_iterated_half_way_leaves_nothing_open(dataset, opened):
    before = opened()
    samples = begun(dataset)
    assert opened() > before
    del samples
    assert opened() <= before


@pytest.mark.parametrize("batching", ["fixed", *BY_LENGTH])
def test_a_dataset_that_is_dropped_closes_what_single_samples_opened(dataset_folder, tmp_path, opened, batching):
    before = opened()
    dataset = make(f"{dataset_folder}/audio", tmp_path, batching=BY_LENGTH.get(batching, batching))
    assert len(dataset) > 0
    assert len(dataset[0]["audio"]) > 0
    for number in range(0, 50, 10):
        dataset.get_item(number)
    assert opened() >= before + 5
    del dataset
    assert opened() <= before


def test_a_new_epoch_ends_what_a_dropped_one_had_open(dataset, opened):
    loader = StreamingDataLoader(dataset)
    before, counts = opened(), []
    for _ in range(4):
        batches = begun(loader)
        counts.append(opened() - before)
    assert max(counts) <= 2 * 11 + 2
    del batches
    assert opened() <= before


def test_torchs_loader_leaves_nothing_open(dataset_folder, opened):
    import torch.utils.data

    dataset = make(f"{dataset_folder}/audio", batch_size=4)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=collate)
    before = opened()
    batches = begun(loader)
    assert opened() > before
    del batches
    assert opened() <= before


def fail(sample):
    if fail.left == 0:
        raise ValueError("as a test")
    fail.left -= 1
    return sample


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_loader_that_failed_leaves_nothing_open_once_its_error_is_dropped(dataset_folder, opened, num_workers):
    before, fail.left = opened(), 9
    loader = StreamingDataLoader(make(f"{dataset_folder}/audio", transform=fail), num_workers=num_workers)
    with contextlib.suppress(HeadraceError):
        list(loader)
        raise AssertionError
    del loader
    assert opened() <= before


def test_a_shard_that_is_gone_leaves_nothing_open_once_its_error_is_dropped(dataset_folder, tmp_path, opened):
    shutil.copytree(dataset_folder / "audio", tmp_path / "audio")
    sorted((tmp_path / "audio").glob("train*.tar"))[5].unlink()
    before = opened()
    for dataset in (make(f"{tmp_path}/audio"), make(f"{tmp_path}/audio")):
        with contextlib.suppress(HeadraceError):
            list(StreamingDataLoader(dataset))
            raise AssertionError
    del dataset
    assert opened() <= before


def cached(folder):
    """Number of files of a folder that this process has open."""
    links = []
    for path in DESCRIPTORS.iterdir():
        with contextlib.suppress(OSError):
            links.append(str(path.readlink()))
    return sum(link.startswith(f"{folder}/") for link in links)


def threads_of_ours():
    return {thread for thread in threading.enumerate() if thread.name.startswith("headrace-")}


def test_a_loader_over_a_store_lets_go_of_its_cache(server, tmp_path, opened):
    others = threads_of_ours()
    dataset = make(f"{server.uri}/audio", tmp_path, batch_size=4)
    keep_all(dataset)
    batches = begun(StreamingDataLoader(dataset))
    assert cached(tmp_path) > 0
    del batches
    wait_for(lambda: not threads_of_ours() - others)
    assert cached(tmp_path) == 0
    server.fault = lambda request: Fault.ERROR_403
    server.requests.clear()
    with pytest.raises(HeadraceError, match="denied"):
        make(f"{server.uri}/audio", tmp_path)
    assert cached(tmp_path) == 0


def test_a_file_is_closed_without_a_word_when_modules_are_empty_already(dataset_folder, opened, monkeypatch):
    """Modules are empty at the interpreter's end, where a daemon thread or a global may still hold an iterator."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    before = opened()
    shard = FileShard(min((dataset_folder / "audio").glob("*.tar")))
    assert opened() == before + 1
    for name in ("os", "fcntl", "errno", "Path"):
        monkeypatch.setattr(shard_module, name, None)
    del shard
    assert opened() <= before
    assert not unraisable
