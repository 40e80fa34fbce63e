"""Tests of `headrace.streaming.order.spec`."""

import json

import pytest

from headrace.errors import ConfigError
from headrace.streaming.order.spec import BatchingMethod, FrameBudget, LengthBuckets, OrderSpec


def test_the_defaults_that_an_order_depends_on_do_not_change():
    """A run that does not state them gets another order from other ones."""
    assert LengthBuckets() == LengthBuckets(window_batches=64)
    assert FrameBudget(1) == FrameBudget(1, batch_multiple=8, window_samples=8192)
    assert OrderSpec(1) == OrderSpec(
        1,
        shuffle=False,
        shuffle_algo="block",
        shuffle_seed=9176,
        num_canonical_nodes=64,
        shuffle_block_size=None,
        batching_method="random",
        sampling_method="balanced",
        sampling_granularity=1,
        last_batch="pad",
        buckets=None,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: LengthBuckets(0),
        lambda: FrameBudget(0),
        lambda: FrameBudget(1, batch_multiple=0),
        lambda: FrameBudget(1, window_samples=0),
        lambda: OrderSpec(0),
        lambda: OrderSpec(1, num_canonical_nodes=0),
        lambda: OrderSpec(1, num_canonical_nodes=2**20 + 1),
        lambda: OrderSpec(1, sampling_granularity=0),
        lambda: OrderSpec(1, shuffle_block_size=0),
        lambda: OrderSpec(1, crop_frames=0),
        lambda: OrderSpec(1, sample_rate=0),
    ],
)
def test_counts_start_at_one_and_no_job_has_more_than_a_million_nodes(make):
    with pytest.raises(ConfigError, match="expected"):
        make()


def test_the_order_depends_on_the_global_batch_in_all_cases_but_random_batches_and_frame_budgets():
    methods = {method: OrderSpec(8, batching_method=method).needs_global_batch for method in BatchingMethod}
    assert [method for method, needs in methods.items() if not needs] == [BatchingMethod.RANDOM]
    assert OrderSpec(8, buckets=LengthBuckets(3)).needs_global_batch
    assert not OrderSpec(8, buckets=FrameBudget(900)).needs_global_batch


def test_the_least_and_the_largest_counts_are_allowed():
    assert FrameBudget(1, batch_multiple=1, window_samples=1).window_samples == 1
    spec = OrderSpec(
        1,
        num_canonical_nodes=1,
        shuffle_block_size=1,
        sampling_granularity=1,
        buckets=LengthBuckets(1),
        crop_frames=1,
        sample_rate=1,
    )
    assert OrderSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert OrderSpec(1, num_canonical_nodes=2**20).num_canonical_nodes == 2**20


@pytest.mark.parametrize("alias", ["py1e", "py1s", "py2s", "py1br", "naive"])
def test_the_names_of_the_reference_are_known(alias):
    assert OrderSpec(8, shuffle_algo=alias).shuffle_algo in {"block", "full"}


def test_an_unknown_algorithm_is_rejected_by_a_message_that_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"'py9' is not known: expected one of block, full, py1e"):
        OrderSpec(8, shuffle_algo="py9")
