"""Under other people's loaders: torch's DataLoader and torchdata's StatefulDataLoader, with and without workers."""

import json
import pickle
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from headrace import StreamingDataLoader, StreamingDataset, collate
from headrace.errors import StateError
from headrace.streaming.run.epoch_board import EpochBoard

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torchdata says what torch has deprecated
    from torchdata.stateful_dataloader import StatefulDataLoader

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore:.*set_vital.*")]

BATCH = 8
NUM_BATCHES = 7


def make(folder, **more):
    return StreamingDataset(remote=f"{folder}/audio", split="train", **({"batch_size": BATCH, "shuffle": True} | more))


def plain(dataset, **more):
    return DataLoader(dataset, batch_size=BATCH, collate_fn=collate, **more)


def stateful(dataset, **more):
    return StatefulDataLoader(dataset, batch_size=BATCH, collate_fn=collate, **more)


def keys(batches, count=None):
    """Keys of the next batches."""
    batches = iter(batches)
    return [batch["keys"] for batch in batches] if count is None else [next(batches)["keys"] for _ in range(count)]


@pytest.fixture(scope="module")
def epochs(dataset_folder):
    """Keys of each batch of the first epochs."""
    loader = StreamingDataLoader(make(dataset_folder))
    return [keys(loader) for _ in range(3)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_plain_dataloader_gives_the_same_batches(dataset_folder, num_workers):
    loader = plain(make(dataset_folder), num_workers=num_workers)
    ours = StreamingDataLoader(make(dataset_folder))
    assert len(loader) == len(ours)
    for theirs, batch in zip(loader, ours, strict=True):
        assert theirs["keys"] == batch["keys"]
        assert torch.equal(theirs["audio"], batch["audio"])
        assert torch.equal(theirs["is_padding"], batch["is_padding"])


WORKERS = [
    pytest.param({}, id="none"),
    pytest.param({"num_workers": 2}, id="forked"),
    pytest.param({"num_workers": 2, "persistent_workers": True}, id="persistent"),
    pytest.param({"num_workers": 1, "multiprocessing_context": "spawn"}, id="spawned", marks=pytest.mark.slow),
    pytest.param({"num_workers": 2, "multiprocessing_context": "forkserver"}, id="served", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("workers", WORKERS)
def test_each_iteration_is_the_next_epoch(dataset_folder, epochs, workers):
    """Workers read copies of the dataset; the dataset counts on all the same."""
    dataset = make(dataset_folder)
    loader = plain(dataset, **workers)
    assert [keys(loader), keys(loader)] == epochs[:2]
    assert dataset.next_epoch == 2
    assert keys(StreamingDataLoader(dataset)) == epochs[2]


@pytest.mark.parametrize("workers", WORKERS[1:3])
def test_an_iteration_that_was_left_early_counts_as_one(dataset_folder, epochs, workers):
    loader = plain(make(dataset_folder), **workers)
    keys(loader, 1)
    assert keys(loader) == epochs[1]


def test_a_dataset_that_was_loaded_goes_on_in_workers_and_then_with_the_next_epoch(dataset_folder, epochs):
    stopped = StreamingDataLoader(make(dataset_folder))
    batches = iter(stopped)
    keys(batches, 3)
    dataset = make(dataset_folder)
    dataset.load_state_dict(stopped.state_dict())
    loader = plain(dataset, num_workers=2)
    assert len(loader) == NUM_BATCHES - 3
    assert [keys(loader), keys(loader)] == [epochs[0][3:], epochs[1]]
    batches.close()


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_a_state_reaches_workers_that_have_read_before(dataset_folder, epochs, workers):
    stopped = StreamingDataLoader(make(dataset_folder))
    batches = iter(stopped)
    keys(batches, 3)
    state = stopped.state_dict()
    batches.close()
    dataset = make(dataset_folder)
    loader = plain(dataset, **workers)
    keys(loader)
    for _ in range(2):
        dataset.load_state_dict(state)
        assert [keys(loader), keys(loader)] == [epochs[0][3:], epochs[1]]
    assert dataset.next_epoch == 2


def test_a_copy_of_a_board_knows_what_was_posted():
    board = EpochBoard()
    assert board.posted(0) == (0, None)
    assert [board.post(b"one"), board.post(b"two")] == [1, 2]
    copy = pickle.loads(pickle.dumps(board))
    assert copy.posted(1) == (2, b"two")
    assert copy.post(b"three") == 3
    assert board.posted(2) == (2, None)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loop_that_counts_samples_can_save_under_a_plain_dataloader(dataset_folder, epochs, num_workers):
    dataset = make(dataset_folder)
    loader = plain(dataset, num_workers=num_workers)
    keys(loader)
    keys(loader, 2)
    resumed = StreamingDataLoader(make(dataset_folder))
    resumed.load_state_dict(dataset.state_dict(2 * BATCH))
    assert keys(resumed) == epochs[1][2:]
    resumed.load_state_dict(dataset.state_dict(NUM_BATCHES * BATCH))
    assert keys(resumed) == epochs[2]


def test_samples_that_workers_of_others_deliver_are_not_counted_in_silence(dataset_folder):
    dataset = make(dataset_folder)
    keys(plain(dataset, num_workers=1), 2)
    with pytest.raises(StateError, match="num_samples="):
        dataset.state_dict()


@pytest.mark.parametrize(
    ("stop", "num_workers"),
    [*((stop, 0) for stop in (0, 1, 5, NUM_BATCHES, NUM_BATCHES + 2)), (0, 2), (5, 2), (NUM_BATCHES, 2)],
)
def test_a_stateful_dataloader_resumes_anywhere_and_goes_on_to_the_next_epoch(
    dataset_folder, epochs, stop, num_workers
):
    first = stateful(make(dataset_folder), num_workers=num_workers)
    epoch, within = divmod(stop, NUM_BATCHES)
    seen = [batch for _ in range(epoch) for batch in keys(first)]
    if within:
        batches = iter(first)
        seen += keys(batches, within)
    state = first.state_dict()
    second = stateful(make(dataset_folder), num_workers=num_workers)
    second.load_state_dict(state)
    assert seen + keys(second) + keys(second) == [batch for epoch in epochs[: epoch + 2] for batch in epoch]


def test_the_state_of_one_worker_is_rejected_outside_of_it(dataset_folder):
    loader = stateful(make(dataset_folder), num_workers=2)
    batches = iter(loader)
    keys(batches, 1)
    workers = loader.state_dict()["_snapshot"]["_worker_snapshots"]
    with pytest.raises(StateError, match="worker 0 of 2 of a DataLoader"):
        make(dataset_folder).load_state_dict(json.loads(json.dumps(workers["worker_0"]["dataset_state"])))


# The board on which workers' copies write


@given(st.lists(st.tuples(st.integers(1, 5), st.permutations(range(5))), min_size=1, max_size=6), st.integers(0, 9))
def test_sibling_workers_agree_on_an_epoch_and_each_iteration_takes_the_next(iterations, epoch):
    """Some workers of an iteration may end before they begin."""
    board = EpochBoard()
    for number, (num_workers, order) in enumerate(iterations):
        found = {board.claim(worker, 7**20 + number, epoch) for worker in order[:num_workers]}
        assert found == {epoch + number}
    assert board.latest() == epoch + len(iterations) - 1
    board.clear()
    assert board.latest() is None
