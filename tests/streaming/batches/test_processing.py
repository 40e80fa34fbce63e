"""Transforms of samples: which draw from a generator, and what they may return."""

from functools import partial

import numpy as np
import pytest
import torch

from headrace.errors import SampleError
from headrace.streaming.batches.processing import SampleProcessing, wants_rng
from headrace.streaming.settings import SampleSettings


def drawn(sample, rng=None):
    return sample | {"number": int(rng.integers(1 << 30))}


class Noise(torch.nn.Module):
    def forward(self, sample, *, rng):
        return drawn(sample, rng)


def processing(transform, seed=1, **more):
    return SampleProcessing(SampleSettings(transform=transform, **more), seed)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (drawn, True),
        (Noise(), True),
        (partial(drawn, rng=np.random.default_rng(1)), False),
        (lambda sample, rng="fixed": sample, False),
        (lambda sample, **more: sample, False),
        (torch.nn.Identity(), False),
        (dict, False),
    ],
)
def test_a_generator_is_given_to_a_parameter_that_is_not_set(transform, expected):
    assert wants_rng(transform) == expected


def test_a_draw_depends_on_seed_epoch_and_position_alone():
    def number(seed, epoch, position):
        return processing(drawn, seed).transformed({}, epoch, position)["number"]

    assert number(1, 2, 3) == number(1, 2, 3)
    assert len({number(1, 2, 3), number(2, 2, 3), number(1, 3, 3), number(1, 2, 4)}) == 4


def test_a_sample_without_a_transform_stays_and_one_that_is_lost_is_an_error():
    sample = {"__key__": "a"}
    assert processing(None).transformed(sample, 0, 0) is sample
    with pytest.raises(TypeError, match="the transform gave None: let it return the sample"):
        processing(lambda sample: None).transformed(sample, 0, 0)


def test_names_of_audio_fields_go_with_a_new_dict():
    sample = {"__audio__": ("mix",), "mix": np.zeros((1, 2))}
    found = processing(lambda sample: {"mix": sample["mix"]}).transformed(sample, 0, 0)
    assert found["__audio__"] == ("mix",)


def test_what_a_transform_gave_is_checked_and_padded_lists_become_arrays():
    made = processing(lambda sample: sample, pad={"tokens": 0})
    sample = {"__key__": "a", "tokens": [1, 2]}
    made.check(sample)
    assert sample["tokens"].tolist() == [1, 2]
    with pytest.raises(SampleError, match="the transform gave a list as audio"):
        made.check({"__key__": "a", "audio": [0.5]})
