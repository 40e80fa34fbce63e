"""What an encoder gives for a batch, held against what it promised; how messages name an encoder.

Owns the check of types, shapes and dtypes. How many frames each row must have is for the caller, who knows the sample.
Imports torch.
"""

from torch import Tensor

from headrace.encoders.protocol import Encoder
from headrace.errors import BuildError


def name_of(encoder: Encoder) -> str:
    """How messages name an encoder: a user's own by `module:Class`, one of ours by its class."""
    return f"encoder {getattr(encoder, 'name', type(encoder).__name__)}"


def checked(encoder: Encoder, num_rows: int, given: object) -> tuple[Tensor, Tensor]:
    """What `encode` gave for a batch of `num_rows`: floating point (B, T, D), and integers (B,) on the CPU.

    Raises:
        BuildError: it is anything else.
    """
    match given:
        case [Tensor() as hidden, Tensor() as num_latent] if (
            hidden.is_floating_point()
            and hidden.ndim == 3
            and (len(hidden), hidden.shape[2]) == (num_rows, encoder.latent_dim)
            and _is_integer(num_latent)
            and num_latent.shape == (num_rows,)
        ):
            return hidden, num_latent.cpu()
    promised = f"(floating point ({num_rows}, T, {encoder.latent_dim}), int64 ({num_rows},))"
    raise BuildError(
        f"{name_of(encoder)}: for a batch of {num_rows} its encode gave {_form(given)}, it promised {promised}; "
        "mend its encode, or its latent_dim"
    )


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or str(tensor.dtype) == "torch.bool")


def _form(given: object) -> str:
    """Types, shapes and dtypes in a few words."""
    if isinstance(given, Tensor):
        return f"{str(given.dtype).removeprefix('torch.')} {tuple(given.shape)}"
    if isinstance(given, tuple):
        return f"({', '.join(_form(part) for part in given)})"
    kind = type(given)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
