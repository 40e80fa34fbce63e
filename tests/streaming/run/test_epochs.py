"""Runs through an epoch: plans that who looks ahead has made are kept for whom they are made, and no longer."""

import pytest

from headrace import StreamingDataset
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_dataset(folder, {"train": clips(40)})
    return folder


@pytest.fixture
def run(folder):
    return StreamingDataset(remote=f"{folder}/audio", split="train", batch_size=2).epochs.next_run()


def is_kept(run, index):
    """Whether the run keeps the plan of a batch that is looked at."""
    return run.peek(index) is run.peek(index)


def test_a_plan_that_was_looked_at_is_not_made_again(run):
    peeked = run.peek(3)
    assert is_kept(run, 3)
    assert run.plan(3) is peeked


def test_a_plan_is_not_kept_where_workers_are_ahead_of_who_looks_ahead(run):
    """It would be for the rest of the epoch: nobody asks for it any more."""
    plans = run.plans()
    made = [next(plans) for _ in range(8)]
    assert (run.peek(5).rows.sample_ids == made[5].rows.sample_ids).all()
    assert not is_kept(run, 5)
    assert not is_kept(run, 7)
    assert is_kept(run, 8)
