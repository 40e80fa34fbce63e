"""Checks what an encoder returns for a batch: types, shapes and dtypes.

The caller checks the number of latent frames of each row, because it knows the sample and can name it. Imports torch.
"""

import torch
from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.errors import BuildError


def name_of(encoder: Encoder) -> str:
    """The name of an encoder in messages: `module:Class` of a user's own encoder, else its class."""
    return f"encoder {getattr(encoder, 'name', type(encoder).__name__)}"


def checked(encoder: Encoder, num_rows: int, given: object) -> tuple[Tensor, Tensor]:
    """The result of `encode`: dense floating-point latents (B, T, D), and integer lengths (B,) on the CPU.

    Args:
        encoder: what encoded the batch.
        num_rows: B.
        given: what its `encode` returned.

    Raises:
        BuildError: `given` has other types, shapes or dtypes.
    """
    match given:
        case [Tensor() as hidden, Tensor() as num_latent] if (
            hidden.is_floating_point()
            and _is_dense(hidden)
            and hidden.ndim == 3
            and (len(hidden), hidden.shape[2]) == (num_rows, encoder.latent_dim)
            and _is_dense(num_latent)
            and _is_integer(num_latent)
            and num_latent.shape == (num_rows,)
        ):
            return hidden, num_latent.cpu()
    promised = f"(floating point ({num_rows}, T, {encoder.latent_dim}), int64 ({num_rows},))"
    raise BuildError(
        f"{name_of(encoder)}: for a batch of {num_rows} rows, encode returned {_form(given)}, expected {promised}; "
        "correct its encode, or its latent_dim"
    )


def _is_dense(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or str(tensor.dtype) == "torch.bool")


def _form(given: object) -> str:
    """Types, shapes and dtypes in a few words."""
    if isinstance(given, Tensor):
        dtype = str(given.dtype).removeprefix("torch.")
        if given.is_nested:  # a nested tensor has no shape
            return f"nested {dtype}"
        layout = "" if given.layout is torch.strided else f"{str(given.layout).removeprefix('torch.')} "
        return f"{layout}{dtype} {tuple(given.shape)}"
    if isinstance(given, tuple):
        return f"({', '.join(_form(part) for part in given)})"
    kind = type(given)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
