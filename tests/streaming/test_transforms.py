"""Transforms: what is random in them, and what goes wrong in them."""

import functools
import gc
import random

import numpy as np
import pytest
import torch

from headrace import StreamingDataLoader, World
from headrace.errors import ConfigError, SampleError
from tests.streaming.test_loader import make


@pytest.mark.medium
def test_random_transforms_draw_differently_in_each_worker_and_alike_for_any_number_of_them(dataset_folder):
    """The consumer's own seed is what forked workers would share."""
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - as training scripts do
    torch.manual_seed(1)
    drawn = [
        [
            draws
            for batch in StreamingDataLoader(make(dataset_folder, transform=_drawing), num_workers=n)
            for draws in batch["draws"]
        ]
        for n in (1, 3)
    ]
    assert drawn[0] == drawn[1]
    for draws in zip(*(draws for draws in drawn[0] if draws), strict=True):
        assert len(set(draws)) == 53


class _Held(list):
    """An object that the garbage collector knows."""


def _searching(sample):
    return {"__key__": sample["__key__"], "searched": any(isinstance(one, _Held) for one in gc.get_objects())}


@pytest.mark.medium
def test_workers_never_search_for_garbage_what_was_there_before_the_fork(dataset_folder):
    held = _Held()
    for workers in (0, 2):
        loader = StreamingDataLoader(make(dataset_folder, transform=_searching), num_workers=workers)
        assert any(bool(found) for batch in loader for found in batch["searched"]) == (workers == 0)
    assert not held


def _drawing_its_own(sample, rng):
    return {"__key__": sample["__key__"], "draw": rng.random()}


def drawn(batches):
    return [pair for batch in batches for pair in zip(batch["keys"], batch["draw"].tolist(), strict=True)]


@pytest.mark.medium
def test_a_transform_with_a_generator_draws_the_same_whatever_makes_its_batches(dataset_folder):
    def dataset(**more):
        return make(dataset_folder, transform=_drawing_its_own, shuffle=True, **more)

    expected = drawn(StreamingDataLoader(dataset(), num_threads=1))
    assert len({draw for key, draw in expected if key}) == 53
    for how in ({"num_threads": 4}, {"num_workers": 2}):
        assert drawn(StreamingDataLoader(dataset(), **how)) == expected
    halves = [drawn(StreamingDataLoader(dataset(batch_size=4, world=World(rank, 2)))) for rank in range(2)]
    assert {pair for half in halves for pair in half if pair[0]} == {pair for pair in expected if pair[0]}


def test_a_transform_with_a_generator_draws_the_same_after_a_resume_and_differently_in_each_epoch(dataset_folder):
    loader = StreamingDataLoader(make(dataset_folder, transform=_drawing_its_own, shuffle=True))
    whole, following = list(loader), drawn(loader)
    assert not {draw for _, draw in following if draw} & {draw for _, draw in drawn(whole)}
    stopped = StreamingDataLoader(make(dataset_folder, transform=_drawing_its_own, shuffle=True))
    batches = iter(stopped)
    next(batches)
    state = stopped.state_dict()
    batches.close()
    resumed = StreamingDataLoader(make(dataset_folder, transform=_drawing_its_own, shuffle=True))
    resumed.load_state_dict(state)
    assert drawn(resumed) == drawn(whole[1:])


def _drawing(sample):
    draws = random.random(), float(np.random.rand()), float(torch.rand(1))  # noqa: NPY002 - see above
    return {"__key__": sample["__key__"], "draws": draws}


def test_a_generator_that_a_transform_was_given_stays(dataset_folder):
    own = np.random.default_rng(5)
    transform = functools.partial(_drawing_its_own, rng=own)
    loader = StreamingDataLoader(make(dataset_folder, transform=transform), num_threads=1)
    draws = [draw for key, draw in drawn(loader) if key]
    again = np.random.default_rng(5)
    assert sorted(draws) == sorted(again.random() for _ in draws)


class _Noise(torch.nn.Module):
    def forward(self, sample, rng):
        return _drawing_its_own(sample, rng)


def test_a_module_gets_a_generator_as_a_function_does(dataset_folder):
    batches = [drawn(StreamingDataLoader(make(dataset_folder, transform=f))) for f in (_Noise(), _drawing_its_own)]
    assert batches[0] == batches[1]


class _Reversed:
    forward = False

    def __call__(self, sample, rng):
        return _drawing_its_own(sample, rng)


def test_only_a_modules_forward_is_looked_at(dataset_folder):
    batches = [drawn(StreamingDataLoader(make(dataset_folder, transform=f))) for f in (_Reversed(), _drawing_its_own)]
    assert batches[0] == batches[1]


def test_a_transform_that_forgets_to_return_the_sample_is_named(dataset_folder):
    with pytest.raises(SampleError, match="the transform gave None: let it return the sample"):
        next(iter(StreamingDataLoader(make(dataset_folder, transform=lambda s: None))))


def test_a_transform_that_cannot_travel_is_rejected_with_advice(dataset_folder):
    loader = StreamingDataLoader(
        make(dataset_folder, transform=lambda s: s), num_workers=1, multiprocessing_context="spawn"
    )
    with pytest.raises(ConfigError, match="num_workers=0"):
        next(iter(loader))


def test_errors_of_a_transform_come_with_shard_and_key(dataset_folder):
    with pytest.raises(SampleError, match=r"train_.*tar: sample 'clip.*ZeroDivisionError"):
        next(iter(StreamingDataLoader(make(dataset_folder, transform=lambda s: 1 // 0))))
