"""Checks what an encoder returns for a batch: types, shapes and dtypes.

The caller checks the number of frames of each row, because it knows the sample and can name it. Imports torch.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.encoders.protocol import Encoder
from headrace.errors import BuildError
from headrace.output_kinds import OutputKind


class Encoded(NamedTuple):
    """One output of a batch: values (B, T, D), T = 1 for vectors, and its frames of each row, int64 (B,) on the CPU."""

    values: Tensor
    lengths: Tensor


def name_of(encoder: Encoder) -> str:
    """The name of an encoder in messages: `module:Class` of a user's own encoder, else its class."""
    return f"encoder {getattr(encoder, 'name', type(encoder).__name__)}"


def checked(encoder: Encoder, num_rows: int, given: object) -> list[Encoded]:
    """The result of `encode` for each of its outputs, dense.

    Args:
        encoder: what encoded the batch.
        num_rows: B.
        given: what its `encode` returned.

    Raises:
        BuildError: `given` has other types, shapes or dtypes.
    """
    outputs = outputs_of(encoder)
    if not outputs[0].name.startswith("encoder_"):
        names = [output.name for output in outputs]
        if not isinstance(given, Mapping) or set(given) != set(names):
            found = f"a dict of {', '.join(map(str, given))}" if isinstance(given, Mapping) else _form(given)
            raise BuildError(
                f"{name_of(encoder)}: encode returned {found}, expected a dict of {', '.join(sorted(names))}; correct "
                "its encode, or its outputs"
            )
        return [_checked(encoder, output, num_rows, given[output.name]) for output in outputs]
    return [_checked(encoder, outputs[0], num_rows, given)]


def _checked(encoder: Encoder, output: EncoderOutput, num_rows: int, given: object) -> Encoded:
    match given:
        case Tensor() as vector if not output.has_time and _fits(vector, output, (num_rows, output.width)):
            return Encoded(vector[:, None], torch.ones(num_rows, dtype=torch.int64))
        case [Tensor() as values, Tensor() as lengths] if (
            output.has_time
            and _is_dense(values)
            and values.ndim == 3
            and _fits(values, output, (num_rows, values.shape[1], output.width))
            and _is_dense(lengths)
            and _is_integer(lengths)
            and lengths.shape == (num_rows,)
        ):
            return Encoded(values, lengths.cpu().long())
    what = "integers" if output.kind is OutputKind.CODES else "floating point"
    promised = f"({what} ({num_rows}, T, {output.width}), int64 ({num_rows},))"
    if not output.has_time:
        promised = f"{what} ({num_rows}, {output.width})"
    called = "" if output.name.startswith("encoder_") else f" as {output.name}"
    raise BuildError(
        f"{name_of(encoder)}: for a batch of {num_rows} rows, encode returned {_form(given)}{called}, expected "
        f"{promised}; correct its encode, or its {'outputs' if called else 'latent_dim'}"
    )


def _fits(values: Tensor, output: EncoderOutput, shape: tuple[int, ...]) -> bool:
    has_kind = _is_integer(values) if output.kind is OutputKind.CODES else values.is_floating_point()
    return has_kind and _is_dense(values) and values.shape == shape


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
