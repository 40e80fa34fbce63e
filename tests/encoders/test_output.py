"""Results of encoders are checked: types, shapes and dtypes."""

from types import SimpleNamespace

import pytest
import torch

from headrace.encoders.output import checked, name_of
from headrace.errors import BuildError

ENCODER = SimpleNamespace(latent_dim=4, hop=80, name="mine:Encoder")
HIDDEN, LENGTHS = torch.zeros(2, 3, 4), torch.tensor([3, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("integer", [torch.int64, torch.int32])
def test_dense_latents_of_any_floating_dtype_with_integer_lengths_are_accepted(dtype, integer):
    ((hidden, lengths),) = checked(ENCODER, 2, (HIDDEN.to(dtype), LENGTHS.to(integer)))
    assert (hidden.dtype, lengths.tolist()) == (dtype, [3, 1])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (None, "NoneType"),
        (HIDDEN, r"float32 \(2, 3, 4\)"),
        ((HIDDEN,), r"\(float32 \(2, 3, 4\)\)"),
        ((HIDDEN.long(), LENGTHS), r"\(int64 \(2, 3, 4\), int64 \(2,\)\)"),
        ((HIDDEN[:1], LENGTHS), r"float32 \(1, 3, 4\)"),
        ((HIDDEN[..., :3], LENGTHS), r"float32 \(2, 3, 3\)"),
        ((HIDDEN[0], LENGTHS), r"float32 \(3, 4\)"),
        ((HIDDEN.to_sparse(), LENGTHS), r"sparse_coo float32 \(2, 3, 4\)"),
        ((HIDDEN, LENGTHS.float()), r"float32 \(2,\)"),
        ((HIDDEN, LENGTHS.bool()), r"bool \(2,\)"),
        ((HIDDEN, LENGTHS[:1]), r"int64 \(1,\)"),
        ((HIDDEN.numpy(), LENGTHS), r"numpy\.ndarray"),
    ],
)
def test_anything_else_is_an_error_that_names_the_encoder_and_what_it_returned(given, named):
    with pytest.raises(BuildError, match=rf"mine:Encoder: for a batch of 2 rows, encode returned .*{named}.*expected"):
        checked(ENCODER, 2, given)


def test_an_encoder_without_a_name_is_called_by_its_class():
    assert name_of(ENCODER) == "encoder mine:Encoder"
    assert name_of(object()) == "encoder object"
