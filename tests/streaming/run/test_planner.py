"""Orders and runs of epochs are made from settings, streams and world."""

import pytest

from headrace import FrameBudget, Stream, StreamingDataset, World
from headrace.errors import ConfigError, StateError
from headrace.streaming import distributed


@pytest.fixture
def planner_of(dataset_folder):
    def make(**settings):
        remote = f"{dataset_folder}/audio"
        return StreamingDataset(**{"remote": remote, "split": "train", "batch_size": 4} | settings)._planner

    return make


@pytest.mark.parametrize("batching", [None, FrameBudget(8000)])
def test_an_epoch_takes_every_sample_once_and_has_no_padding(planner_of, batching):
    rows = planner_of(shuffle=True, batching=batching).rows(3)
    assert sorted(rows.sample_ids.tolist()) == list(range(53))


def test_an_epoch_has_ended_where_no_batch_is_left(planner_of):
    kept, dropped = planner_of(), planner_of(last_batch="drop")
    order = kept.order(0)
    assert [kept.has_ended(order, row) for row in (0, 52, 56)] == [False, False, True]
    assert [dropped.has_ended(dropped.order(0), row) for row in (0, 48, 52)] == [False, False, True]


def test_batches_before_a_run_are_those_that_came(planner_of):
    planner = planner_of()
    whole = planner.run(planner.order(0))
    assert (len(whole), planner.num_batches_before(whole)) == (14, 0)
    rest = planner.run(planner.resumed(planner.state(planner.order(0), 20)))
    assert (len(rest), planner.num_batches_before(rest)) == (9, 5)


def test_a_world_that_does_not_divide_batches_is_an_error_of_the_settings(planner_of, dataset_folder):
    streams = [Stream(f"{dataset_folder}/audio", batch_size=5, name="odd")]
    with pytest.raises(ConfigError, match="stream 'odd' with a batch_size"):
        planner_of(
            remote=None, split=None, streams=streams, batching_method="per_stream", batch_size=5, world=World(0, 2)
        )


def test_at_least_eight_batches_are_downloaded_ahead(planner_of):
    planner = planner_of()
    run = planner.run(planner.order(0))
    assert planner.batches_ahead(run, 1) == 8
    assert planner.batches_ahead(run, 40) == 10
    assert planner.batches_ahead(run, None) >= 8


def test_a_rank_that_begins_elsewhere_than_the_first_to_begin_is_an_error(planner_of, monkeypatch):
    given = {}
    monkeypatch.setattr(distributed, "first_value", given.setdefault)
    first, second = planner_of(world=World(1, 2)), planner_of(world=World(0, 2))
    first.check_beginning("a/1", first.resumed(first.state(first.order(2), 16)))
    second.check_beginning("a/1", second.resumed(second.state(second.order(2), 16)))
    second.check_beginning("a/2", second.order(0))
    for epoch, row, field in ((2, 24, "row of the epoch: 24"), (0, 0, "epoch: 0")):
        with pytest.raises(StateError, match=rf"^{field} on rank 0, but .* on rank 1, .*load the same state"):
            second.check_beginning("a/1", second.resumed(second.state(second.order(epoch), row)))
