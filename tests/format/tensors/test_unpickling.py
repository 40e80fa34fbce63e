"""Tests of `headrace.format.tensors.unpickling`."""

import pytest
import torch

from headrace.errors import FormatError
from headrace.format.tensors.pth import latent_facts
from headrace.format.tensors.unpickling import unpickled
from tests.support.drills.hostile import saved

LARGE = torch.zeros(1, 1).expand(1 << 45, 8)


REFUSED = {
    "of strides": ({"encoder_hidden": LARGE, "encoder_length": 3}, r"made of a file of \d+ by strides \(0, 0\)"),
    "nested": ([{"x": (1, LARGE)}], r"call \.contiguous\(\)"),
}


@pytest.mark.parametrize(("content", "words"), REFUSED.values(), ids=REFUSED)
def test_a_tensor_larger_than_its_file_is_an_error(content, words):
    with pytest.raises(FormatError, match=rf"\.pth rejected: .*{words}"):
        unpickled(saved(content))
    assert latent_facts(saved(content)) is None


def test_small_expanded_tensors_are_accepted():
    assert unpickled(saved(torch.zeros(1, 1).expand(100, 8))).shape == (100, 8)
