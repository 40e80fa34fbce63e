"""Samples come out of batches as they went in, and batches of bfloat16 as each library holds it."""

import numpy as np
import torch

from headrace.streaming.batches.arena import Arena
from headrace.streaming.batches.stacking import collate, stack
from headrace.streaming.settings import ArrayType
from tests.streaming.batches.test_stacking import SAMPLES


def test_samples_come_out_of_a_batch_as_they_went_in():
    for given, found in zip(SAMPLES, stack(SAMPLES, Arena(0)).samples(ArrayType.NUMPY), strict=True):
        assert given.keys() == found.keys()
        assert all(np.array_equal(given[name], found[name]) for name in given)


def test_bfloat16_stays_for_torch_and_is_widened_for_numpy():
    hidden = torch.arange(6.0).reshape(2, 3).bfloat16()
    given = [{"__key__": "a", "encoder_hidden": hidden, "encoder_length": 2}]
    assert torch.equal(collate(given)["encoder_hidden"][0], hidden)
    found = stack(given, Arena(0)).to_dict(ArrayType.NUMPY)["encoder_hidden"]
    assert (found.dtype, found[0].tolist()) == (np.float32, hidden.float().tolist())
