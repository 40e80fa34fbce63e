"""The position of a dataset: what was delivered, what comes next, and what a state says of it."""

import pytest

from headrace import StreamingDataset
from headrace.errors import StateError
from headrace.streaming.order.state import OrderState


@pytest.fixture
def progress(dataset_folder):
    """53 samples in 14 batches."""
    return StreamingDataset(remote=f"{dataset_folder}/audio", split="train", batch_size=4).epochs.progress


def row_of(progress):
    state = OrderState.from_json(progress.state(None, from_beginning=False))
    return state.epoch, state.sample_in_epoch


def test_the_next_run_is_one_object_until_it_begins(progress):
    run = progress.next_run()
    assert progress.next_run() is run
    assert progress.begin() is run
    assert progress.next_run() is not run
    assert progress.next_epoch == 1


def test_a_state_is_at_the_rows_that_were_delivered_and_after_the_last_in_the_next_epoch(progress):
    assert row_of(progress) == (0, 0)
    run = progress.begin()
    progress.delivered(run, 3)
    assert row_of(progress) == (0, 12)
    progress.delivered(run, 3, 2)
    assert row_of(progress) == (0, 14)
    progress.delivered(run, 14)
    assert row_of(progress) == (1, 0)


def test_batches_of_a_run_that_is_over_count_no_more(progress):
    old = progress.begin()
    progress.begin()
    progress.delivered(old, 3)
    assert row_of(progress) == (1, 0)


def test_a_loaded_state_is_where_the_next_run_begins(progress):
    run = progress.begin()
    progress.delivered(run, 3)
    saved = OrderState.from_json(progress.state(None, from_beginning=False))
    progress.load(saved, None)
    assert progress.waiting is saved
    rest = progress.begin()
    assert (rest.epoch, len(rest), progress.num_batches_before(rest)) == (0, 11, 3)
    assert progress.waiting is None


def test_samples_that_somebody_else_counted_make_a_state(progress):
    run = progress.begin()
    progress.delivered(run, 1)
    state = OrderState.from_json(progress.state(20, from_beginning=True))
    assert (state.epoch, state.sample_in_epoch) == (0, 20)


def test_the_state_of_a_worker_is_for_that_worker(progress):
    saved = OrderState.from_json(progress.state(None, from_beginning=False))
    with pytest.raises(StateError, match="the state is of worker 1 of 2 of a DataLoader"):
        progress.load(saved, {"id": 1, "num_workers": 2, "next_batch": 3})
