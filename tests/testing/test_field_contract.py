"""The outputs of encoders of every kind, from the encoder to the batch."""

import pytest

from headrace import encoders
from headrace.testing import FieldContract


class TestEveryKind(FieldContract):
    """Encoders without files: float matrices, codes, vectors, several outputs of several paces."""

    @pytest.fixture(
        params=[
            ("log_mel", {"num_mels": 8}),
            ("fbank", {"num_mels": 8}),
            ("custom", {"encoder": "tests.support.outputs_encoder:Quantizer"}),
            ("custom", {"encoder": "tests.support.outputs_encoder:Paces"}),
        ],
        ids=["log_mel", "fbank", "quantizer", "paces"],
    )
    def encoder(self, request):
        return encoders.load(*request.param)
