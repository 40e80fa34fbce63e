"""The loader: threads and workers make the same batches, errors reach the consumer, nothing is left running."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace import LengthBuckets, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, SampleError
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.drills import wait_for
from tests.support.streaming.modes import BATCH_MULTIPLE, MODES, open_mode

BATCH = 8


def make(folder, **more):
    more = {"split": "train", "batch_size": BATCH, "shuffle": True} | more
    return StreamingDataset(remote=f"{folder}/audio", **more)


def same(one, two):
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.equal(value, two[name]) if isinstance(value, torch.Tensor) else value == two[name], name


@pytest.mark.medium
@pytest.mark.parametrize(
    "more",
    [{}, {"latents": ["latents/crepe"]}, {"crop_frames": 200}, {"batching": LengthBuckets(2)}, {"output": "torch"}],
    ids=str,
)
def test_threads_workers_and_single_steps_make_the_same_batches(dataset_folder, more):
    if "latents" in more:
        more = {"latents": [f"{dataset_folder}/{folder}" for folder in more["latents"]]}
    expected = list(StreamingDataLoader(make(dataset_folder, **more), num_threads=1, prefetch_factor=1))
    slowly = make(dataset_folder, transform=_same, **more)  # makes each sample by itself, then collates
    for loader in (
        StreamingDataLoader(make(dataset_folder, **more), num_threads=5, prefetch_factor=4),
        StreamingDataLoader(make(dataset_folder, **more), num_workers=3),
        StreamingDataLoader(slowly, num_workers=0),
    ):
        found = list(loader)
        assert len(found) == len(expected) == len(loader)
        for one, two in zip(expected, found, strict=True):
            same(one, two)


def _same(sample):
    return sample


@pytest.mark.slow
def test_workers_of_a_fork_server_that_runs_already_have_the_environment_of_now(dataset_folder, monkeypatch):
    context = multiprocessing.get_context("forkserver")
    monkeypatch.setenv("OF_THEN", "1")
    child = context.Process(target=_nothing)  # the server starts here, if no test has started it
    child.start()
    child.join()
    monkeypatch.delenv("OF_THEN")
    monkeypatch.setenv("OF_NOW", "2")
    dataset = make(dataset_folder, transform=_environment)
    loader = StreamingDataLoader(dataset, num_workers=1, multiprocessing_context="forkserver")
    assert {word for batch in loader for word in batch["environment"] if word} == {"None, 2"}


def _nothing():
    pass


def _environment(sample):
    return sample | {"environment": f"{os.environ.get('OF_THEN')}, {os.environ.get('OF_NOW')}"}


def test_batches_have_the_documented_shapes(dataset_folder, corpus):
    loader = StreamingDataLoader(make(dataset_folder, latents=[f"{dataset_folder}/latents/crepe"], shuffle=False))
    batches = list(loader)
    first, last = batches[0], batches[-1]
    longest = max(clip.num_frames for clip in corpus[:BATCH])
    assert first["audio"].shape == (BATCH, 1, longest)
    assert first["num_frames"].tolist() == [clip.num_frames for clip in corpus[:BATCH]]
    assert first["encoder_hidden"].dtype == torch.float16
    assert first["encoder_hidden"].shape[::2] == (BATCH, 8)
    assert first["encoder_length"].dtype == first["num_frames"].dtype == torch.int64
    assert last["is_padding"].tolist() == [False] * 5 + [True] * 3
    assert last["keys"][5:] == [""] * 3
    assert last["metadata"][5:] == [{}] * 3
    assert not last["audio"][5:].any()
    for row, clip in enumerate(corpus[:BATCH]):
        assert np.array_equal(first["audio"][row, :, : clip.num_frames].numpy(), clip.audio())
        assert not first["audio"][row, :, clip.num_frames :].any()


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_state_counts_what_was_delivered_not_what_was_made(dataset_folder, num_workers):
    expected = [batch["keys"] for batch in StreamingDataLoader(make(dataset_folder))]
    loader = StreamingDataLoader(make(dataset_folder), num_workers=num_workers, prefetch_factor=3)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    batches.close()
    resumed = StreamingDataLoader(make(dataset_folder), num_workers=2 - num_workers)
    resumed.load_state_dict(state)
    assert len(resumed) == len(expected) - 3
    assert [batch["keys"] for batch in resumed] == expected[3:]
    assert len(resumed) == len(expected)
    assert resumed.state_dict()["epoch"] == 1


def keys_of(loader, count):
    """Keys of the next batches, over the ends of epochs."""
    found = []
    while len(found) < count:
        batches = iter(loader)
        found += [next(batches)["keys"] for _ in range(min(count - len(found), len(loader)))]
        batches.close()
    return found


@pytest.mark.medium
@pytest.mark.parametrize("mode", MODES)
def test_a_chain_of_stops_and_workers_is_one_uninterrupted_run_across_epochs(dataset_folder, mode):
    """Each part reads some batches with some workers, and hands its state on."""
    chain = ((1, 0), (3, 2), (0, 0), (3, 1))
    expected = keys_of(
        StreamingDataLoader(open_mode(dataset_folder, mode, batch_size=BATCH_MULTIPLE // 4)),
        sum(count for count, _ in chain),
    )
    seen, state = [], None
    for count, num_workers in chain:
        loader = StreamingDataLoader(
            open_mode(dataset_folder, mode, batch_size=BATCH_MULTIPLE // 4), num_workers=num_workers
        )
        if state is not None:
            loader.load_state_dict(state)
        seen += keys_of(loader, count)
        state = loader.state_dict()
    assert seen == expected


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_iterator_dropped_early_leaves_no_threads_or_processes(dataset_folder, num_workers):
    before = set(threading.enumerate()) | set(multiprocessing.active_children())
    batches = iter(StreamingDataLoader(make(dataset_folder), num_workers=num_workers))
    next(batches)
    batches.close()
    assert before.issuperset(multiprocessing.active_children())
    wait_for(lambda: before.issuperset(threading.enumerate()))


def test_an_iteration_that_ends_leaves_the_one_that_began_after_it(dataset_folder):
    loader = StreamingDataLoader(StreamingDataset(remote=f"{dataset_folder}/audio", split="test", batch_size=4))
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    first.close()
    assert loader.is_running
    loader.load_state_dict(loader.dataset.state_dict(4))
    assert (len(loader), loader.next_len) == (2, 1)
    second.close()
    assert not loader.is_running


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_that_are_kept_stay_as_they_were(dataset_folder, num_workers):
    """Memory is used again only once nobody looks at it."""
    big = make(dataset_folder, transform=_tripled, batch_size=16)
    kept = list(StreamingDataLoader(big, num_workers=num_workers))
    again = list(StreamingDataLoader(make(dataset_folder, transform=_tripled, batch_size=16)))
    for one, two in zip(kept, again, strict=True):
        same(one, two)


def _tripled(sample):
    return sample | {"audio": sample["audio"].repeat(1, 30)}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_bad_sample_is_named_with_its_shard(tmp_path, num_workers):
    key, shard = damaged_dataset(tmp_path)
    loader = StreamingDataLoader(make(tmp_path), num_workers=num_workers)
    with pytest.raises(SampleError, match=f"{shard}.*{key}"):
        list(loader)


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_skipped_samples_become_padding_and_are_counted(tmp_path, num_workers):
    key, _ = damaged_dataset(tmp_path)
    loader = StreamingDataLoader(make(tmp_path, on_bad_sample="skip"), num_workers=num_workers)
    batches = list(loader)
    assert len(batches) == len(loader) == 3
    keys = [found for batch in batches for found in batch["keys"]]
    assert key not in keys
    assert sum(not found for found in keys) == sum(int(batch["is_padding"].sum()) for batch in batches) == 5
    assert loader.stats.num_bad_samples == 1
    strict = StreamingDataLoader(make(tmp_path, on_bad_sample="skip", max_bad_samples=0), num_workers=num_workers)
    with pytest.raises(SampleError, match=r"max_bad_samples.*" + key):
        list(strict)


def damaged_dataset(folder):
    """20 samples, one with a flipped byte in the middle of its audio. Returns its key and its shard."""
    from headrace.format.indexes.index_files import parse_index

    write_dataset(folder, {"train": clips(20)})
    shard = sorted((folder / "audio").glob("*.tar"))[1]
    index = parse_index(shard.with_suffix(".idx").read_bytes(), "")
    start, stop = index.range_of(2, "flac")
    blob = bytearray(shard.read_bytes())
    blob[(start + stop) // 2] ^= 0xFF
    shard.write_bytes(blob)
    return index.key(2), shard.name


@pytest.mark.skipif(torch.accelerator.is_available(), reason="needs a machine without an accelerator")
def test_pinned_memory_without_an_accelerator_is_a_warning(dataset_folder):
    with pytest.warns(UserWarning, match="pin_memory=True has no effect"):
        loader = StreamingDataLoader(make(dataset_folder), pin_memory=True)
    assert next(iter(loader))["keys"]


@pytest.mark.medium
def test_a_killed_worker_is_an_error_that_names_it(dataset_folder):
    before = set(multiprocessing.active_children())
    batches = iter(StreamingDataLoader(make(dataset_folder, transform=_slowly), num_workers=2))
    next(batches)
    victim, _ = set(multiprocessing.active_children()) - before
    victim.kill()
    with pytest.raises(RuntimeError, match=rf"worker process \d \(pid {victim.pid}\) killed by SIGKILL"):
        list(batches)
    assert before.issuperset(multiprocessing.active_children())


@pytest.mark.slow
def test_workers_that_cannot_import_the_script_say_what_to_do(dataset_folder, tmp_path):
    """Python ends a worker that is not forked if the script has no line for the name `__main__`."""
    script = tmp_path / "train.py"
    script.write_text(
        "from headrace import StreamingDataLoader, StreamingDataset\n"
        f"dataset = StreamingDataset(remote={str(dataset_folder / 'audio')!r}, batch_size=4)\n"
        "next(iter(StreamingDataLoader(dataset, num_workers=1, multiprocessing_context='spawn')))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1
    assert 'code under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]


def _slowly(sample):
    time.sleep(0.02)
    return sample


def _less_slowly(sample):
    time.sleep(0.004)
    return sample


def test_datasets_travel_between_processes_after_reading(dataset_folder):
    dataset = make(dataset_folder)
    next(iter(dataset))
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.next_epoch == dataset.next_epoch == 1
    assert next(iter(StreamingDataLoader(copy, num_workers=1)))["keys"]


def test_stats_show_whether_the_consumer_starves(dataset_folder):
    loader = StreamingDataLoader(make(dataset_folder))
    assert loader.stats.samples_per_second == 0
    for _ in loader:
        time.sleep(0.01)
    stats = loader.stats
    assert (stats.num_batches, stats.num_samples) == (7, 53)
    assert stats.wait_seconds > 0
    assert 0 < stats.wait_share < 1
    assert stats.decode_seconds > 0
    assert stats.samples_per_second > 0


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_stats_add_up_over_epochs(dataset_folder, num_workers):
    loader = StreamingDataLoader(make(dataset_folder, transform=_less_slowly), num_workers=num_workers)
    list(loader)
    first = loader.stats
    list(loader)
    assert loader.stats.num_batches == 2 * first.num_batches
    assert first.decode_seconds > 53 * 0.004
    assert loader.stats.decode_seconds > first.decode_seconds + 53 * 0.004


def test_a_starving_consumer_is_warned_once(dataset_folder, monkeypatch):
    monkeypatch.setattr("headrace.streaming.stats._WARN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("headrace.streaming.stats._WARN_AFTER_BATCHES", 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(StreamingDataLoader(make(dataset_folder, transform=_less_slowly), num_threads=1))
    assert len([w for w in caught if "the training loop spends" in str(w.message)]) == 1


def test_a_batch_size_that_is_not_the_dataset_s_is_rejected(dataset_folder):
    with pytest.raises(ConfigError, match="batch_size=4"):
        StreamingDataLoader(make(dataset_folder), batch_size=4)


@pytest.mark.medium
def test_accelerate_takes_the_loader_as_it_is(dataset_folder):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = StreamingDataLoader(make(dataset_folder))
    model, optimizer, prepared = accelerator.prepare(model, optimizer, loader)
    expected = [batch["keys"] for batch in StreamingDataLoader(make(dataset_folder))]
    assert [batch["keys"] for batch in prepared] == expected


def test_accelerate_skips_the_first_batches(dataset_folder):
    data_loader = pytest.importorskip("accelerate.data_loader")
    expected = [batch["keys"] for batch in StreamingDataLoader(make(dataset_folder, shuffle=True))]
    rest = data_loader.skip_first_batches(StreamingDataLoader(make(dataset_folder, shuffle=True)), 2)
    assert [batch["keys"] for batch in rest] == expected[2:]


def test_a_rank_whose_last_batch_is_padding_alone_gets_the_usual_fields(dataset_folder):
    """53 samples on 16 ranks: the last global batch has 5, and the other ranks must still take the step."""
    latents = [f"{dataset_folder}/latents/crepe"]
    for more in ({}, {"transform": _same}):
        dataset = make(dataset_folder, batch_size=1, world=World(15, 16), latents=latents, **more)
        *_, last = StreamingDataLoader(dataset)
        assert last["is_padding"].all()
        assert last["audio"].shape[:2] == (1, 1)
        assert last["encoder_hidden"].shape[::2] == (1, 8)
        assert not last["audio"].any()
        assert {s["audio"].shape[0] for s in make(dataset_folder, batch_size=1, world=World(15, 16))} == {1}


def test_skipping_works_sample_by_sample_too(tmp_path):
    key, _ = damaged_dataset(tmp_path)
    samples = list(make(tmp_path, on_bad_sample="skip"))
    assert len(samples) == 24
    assert sum(bool(sample.get("is_padding")) for sample in samples) == 5
    assert key not in {sample["__key__"] for sample in samples}
    with pytest.raises(SampleError, match=key):
        list(make(tmp_path))
