"""The contracts of encoders and of fields: in files, batches, windows and crops the outputs are what was computed."""

import pytest

from headrace import encoders
from headrace.testing import EncoderContract, FieldContract


@pytest.fixture
def encoder():
    return encoders.load("envelope", {"num_steps": 64})


class TestEnvelope(EncoderContract):
    """Every test of the contract of encoders."""

    is_local = True


class TestFields(FieldContract):
    """Every test of the contract of fields."""
