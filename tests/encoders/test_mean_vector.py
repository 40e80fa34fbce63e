"""The custom encoder of examples/mean_vector.py, which the demo uses."""

import pytest
import torch

from examples.mean_vector import MeanVector
from headrace import encoders
from headrace.encoders import Encoder
from headrace.testing import EncoderContract

MEL = {"kind": "log_mel", "num_mels": 24}


def settings(**of: object) -> dict[str, object]:
    """Settings of a YAML entry of kind `custom`."""
    return {"encoder": "examples.mean_vector:MeanVector", "of": of}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """Means of log-mel frames."""
    return encoders.load("custom", settings(**MEL))


class TestMeanVector(EncoderContract):
    """The contract of every encoder."""


def test_the_vector_is_the_mean_of_the_frames_of_each_row_alone():
    """Padding of a shorter row does not count."""
    batch = torch.randn(2, 1, 16_000, generator=torch.Generator().manual_seed(0)) * 0.1
    batch[1, :, 5_000:] = 0
    lengths = torch.tensor([16_000, 5_000])
    mel = encoders.load("log_mel", {"num_mels": 24})
    found = MeanVector("cpu", MEL).encode(batch, lengths)["embedding"]
    for row, length in enumerate(lengths):
        frames, _ = mel.encode(batch[row : row + 1, :, :length], length[None])
        torch.testing.assert_close(found[row], frames[0].mean(0))


def test_the_fingerprint_is_that_of_the_other_encoder_and_needs_no_weights():
    """Other settings of the frames make other vectors."""
    one, other = (encoders.fingerprint("custom", settings(kind="log_mel", num_mels=mels)) for mels in (24, 25))
    assert one != other
    assert one == encoders.load("custom", settings(**MEL)).fingerprint
