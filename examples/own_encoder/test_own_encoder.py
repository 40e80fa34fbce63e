"""The contract of encoders, and what this one computes."""

import pytest
import torch

from headrace import encoders
from headrace.testing import EncoderContract


class TestLoudness(EncoderContract):
    """Every test of the contract, on the encoder as a build loads it."""

    is_local = True  # no attention: a frame depends on the audio around it alone

    @pytest.fixture
    def encoder(self):
        return encoders.load("loudness", {"floor_dbfs": -60})


def test_full_scale_is_0_and_silence_the_floor():
    encoder = encoders.load("loudness", {"floor_dbfs": -60})
    levels, lengths = encoder.encode(torch.stack([torch.ones(1, 320), torch.zeros(1, 320)]), torch.tensor([320, 320]))
    assert levels[..., 0].tolist() == [[0, 0], [-60, -60]]
    assert lengths.tolist() == [2, 2]
