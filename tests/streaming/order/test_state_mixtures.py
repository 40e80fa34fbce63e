"""Changes of the mixture on resume: no sample is repeated or lost."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.errors import ConfigError, StateError
from headrace.streaming.by_length.buckets import in_buckets
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, LengthBuckets, OrderSpec
from headrace.streaming.order.state import resume, save
from tests.support.streaming.known import EarlierScan
from tests.support.streaming.states import frames_of, given_by, pairs, rows_of, snapshots, through_json, two


@pytest.mark.parametrize("method", list(BatchingMethod))
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_change_of_mixture_neither_repeats_nor_loses_a_sample(method, shuffle):
    spec = OrderSpec(24, shuffle=shuffle, num_canonical_nodes=8, batching_method=method)
    before, after = two(a={}, b={}), two(b={}, a={}, c={})
    order = EpochOrder(spec, before, 0)
    row = order.batch_start(5)
    state = save(order, row, snapshots(before))
    changed = resume(through_json(state), spec, after, snapshots(after), change_streams=True)
    first, rest = given_by(rows_of(order)[:row], before), given_by(rows_of(changed), after)
    assert (first["a"] + rest["a"] == 1).all()
    assert (first["b"] + rest["b"] == 1).all()
    assert (rest["c"] == 1).all()


@pytest.mark.parametrize("method", list(BatchingMethod))
def test_a_stream_that_is_wanted_fewer_times_still_gives_every_sample(method):
    spec = OrderSpec(24, shuffle=True, batching_method=method)
    before, after = two(a={}, b={"repeat": 4}), two(a={}, b={"repeat": 1})
    order = EpochOrder(spec, before, 0)
    row = order.batch_start(7)
    state = save(order, row, snapshots(before))
    changed = resume(state, spec, after, snapshots(after), change_streams=True)
    first, rest = given_by(rows_of(order)[:row], before), given_by(rows_of(changed), after)
    assert (first["a"] + rest["a"] == 1).all()
    assert (first["b"] + rest["b"] >= 1).all()
    assert (rest["b"] <= 1).all()


@pytest.mark.parametrize("method", list(BatchingMethod))
def test_a_run_whose_mixture_changed_can_be_cut_and_changed_again(method):
    spec = OrderSpec(24, shuffle=True, num_canonical_nodes=8, batching_method=method)
    mixtures_ = [
        replace(two(a={"proportion": 1}, b={"proportion": 1}), epoch_size=480),
        replace(two(a={"proportion": 3}, c={"proportion": 1}), epoch_size=480),
        replace(two(b={"proportion": 1}, c={"proportion": 1}), epoch_size=480),
    ]
    order, taken = EpochOrder(spec, mixtures_[0], 0), {"a": 0, "b": 0, "c": 0}
    for mixture in mixtures_[1:]:
        row = order.batch_start(4)
        state = save(order, row, snapshots(Mixture(mixtures_[mixtures_.index(mixture) - 1].streams)))
        order = resume(through_json(state), spec, mixture, snapshots(mixture), change_streams=True)
        again = resume(
            through_json(save(order, order.batch_start(2), snapshots(mixture))), spec, mixture, snapshots(mixture)
        )
        assert rows_of(again) == rows_of(order)[order.batch_start(2) - order.start :]
    taken |= order.stream_positions(order.batch_start(order.num_batches))
    assert sum(taken.values()) == 480
    assert [phase.start for phase in order.phases] == sorted(phase.start for phase in order.phases)
    assert len(order.phases) == 3
    assert order.num_samples == 480
    last = order.phases[-1].start
    assert pairs(order.positions(last, last + 9)) == rows_of(order)[:9]
    with pytest.raises(IndexError, match=f"row {last - 1} is before the mixture's last change, at row {last}"):
        order.positions(last - 1, last + 9)


def test_after_a_change_the_rest_of_the_epoch_follows_the_new_proportions():
    before = replace(two(a={"proportion": 1}, b={"proportion": 1}), epoch_size=400)
    after = replace(two(a={"proportion": 3}, b={"proportion": 1}), epoch_size=400)
    spec = OrderSpec(20, shuffle=True)
    state = save(EpochOrder(spec, before, 0), 200, snapshots(before))
    changed = resume(state, spec, after, snapshots(after), change_streams=True)
    assert np.bincount([stream for stream, _ in rows_of(changed)]).tolist() == [150, 50]


@pytest.mark.parametrize("method", list(BatchingMethod))
def test_a_proportion_of_0_switches_a_stream_off_and_another_on_again(method):
    """Off at the beginning or later, what it gives is the whole passes and the picks of its own order."""
    spec = OrderSpec(24, shuffle=True, num_canonical_nodes=8, batching_method=method)
    off = replace(two(a={"proportion": 1}, b={"proportion": 0}), epoch_size=240)
    on = replace(off, streams=two(a={"proportion": 0}, b={"proportion": 1}).streams)
    order = EpochOrder(spec, off, 0)
    row = order.batch_start(5)
    state = save(order, row, snapshots(off))
    changed = resume(through_json(state), spec, on, snapshots(on), change_streams=True)
    first, rest = given_by(rows_of(order)[:row], off), given_by(rows_of(changed), on)
    assert (first["a"].sum(), first["b"].sum()) == (120, 0)
    assert (rest["a"].sum(), rest["b"].sum()) == (0, 120)
    assert rest["b"].max() == 1


def test_a_stream_without_a_row_after_a_change_of_mixture_gives_an_error_with_a_remedy():
    spec = OrderSpec(20, batching_method="stratified")
    before, after = two(a={}), two(a={}, b={"choose": 1})
    with pytest.raises(ConfigError, match="enlarge the batch or the stream's weight, or give batch_size per stream"):
        EpochOrder(spec, after, 0)
    state = save(EpochOrder(spec, before, 0), 40, snapshots(before))
    with pytest.raises(ConfigError, match="small for stratified batches; give batch_size per stream"):
        resume(state, spec, after, snapshots(after), change_streams=True)


def test_the_mixture_changes_at_the_end_of_a_window_of_length_buckets_and_not_inside():
    spec = OrderSpec(20, shuffle=True, buckets=LengthBuckets(4))
    before, after = two(a={}), two(a={}, b={})
    order = EpochOrder(spec, before, 0)
    inside = save(order, 100, snapshots(before))
    with pytest.raises(StateError, match=r"20 samples into a window of length buckets \(80 samples\)"):
        resume(inside, spec, after, snapshots(after), change_streams=True)
    first = in_buckets(order, EarlierScan(before, frames_of))
    ends = [index for index in range(first.num_batches) if first.batch_start(index + 1) == 80]
    given = [row for index in range(ends[0] + 1) for row in pairs(first.batch(index))]
    at_end = through_json(save(order, 80, snapshots(before)))
    resumed = resume(at_end, spec, after, snapshots(after), change_streams=True)
    changed = in_buckets(resumed, EarlierScan(after, frames_of))
    rest = given_by(rows_of(changed), after)
    assert (given_by(given, before)["a"] + rest["a"] == 1).all()
    assert (rest["b"] == 1).all()


def test_the_mixture_of_a_frame_budget_changes_between_epochs_only():
    spec = OrderSpec(20, shuffle=True, buckets=FrameBudget(1000, batch_multiple=4, window_samples=80))
    before, after = two(a={}), two(a={}, b={})
    known = EarlierScan(before, frames_of)
    start = in_buckets(EpochOrder(spec, before, 0), known).batch_start(1)
    inside = save(EpochOrder(spec, before, 0), start, snapshots(before))
    with pytest.raises(StateError, match="cannot change inside an epoch with FrameBudget"):
        resume(inside, spec, after, snapshots(after), change_streams=True)
    at_end = through_json(save(EpochOrder(spec, before, 1), 0, snapshots(before)))
    changed = in_buckets(
        resume(at_end, spec, after, snapshots(after), change_streams=True), EarlierScan(after, frames_of)
    )
    assert all((taken == 1).all() for taken in given_by(rows_of(changed), after).values())
