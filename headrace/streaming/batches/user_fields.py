"""Stacks the values of fields that a transform adds or that other people's tars have.

Values of one shape are stacked, as torch's default collate does; text and everything else stays a list. Padding rows
get zeros, empty text or None. Audio, latents and keys are stacked in `batch`.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.format.tensors.tensors import BFLOAT16, widen_bfloat16
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.settings import ArrayType

_STACKED_DTYPES = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    | {"float16", "float32", "float64", "complex64", "complex128", BFLOAT16}
)
"""Dtypes that numpy and torch both have."""
_INT64 = range(-(1 << 63), 1 << 63)


class ValueKind(Enum):
    """The kind of a field's values before they were stacked."""

    TENSOR = auto()
    ARRAY = auto()
    SCALAR = auto()


@dataclass(slots=True)
class StackedField:
    """A field whose values have one shape and dtype.

    Attributes:
        values: (B, …), zeros in padding rows; bfloat16 as uint16.
        origin: kind of the values in the samples.
        dtype: name of the dtype.
        lengths: int64 (B,), the length of each row of values that were padded; None if they had one shape.
    """

    values: NDArray[Any]
    origin: ValueKind
    dtype: str
    lengths: NDArray[np.int64] | None = None


def as_numpy(value: Any) -> tuple[NDArray[Any], str]:  # noqa: ANN401 - an array of any library
    """An array or tensor as numpy, and the name of its dtype; bfloat16 as uint16."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value), value.dtype.name
    import torch

    tensor = value.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.uint16).numpy(), BFLOAT16
    array = tensor.numpy()
    return array, array.dtype.name


def as_users(array: NDArray[Any], dtype: str, output: ArrayType) -> Any:  # noqa: ANN401 - torch is imported late
    """An array in the form that users get: a tensor, or a numpy array with bfloat16 widened to float32."""
    if output is ArrayType.NUMPY:
        return widen_bfloat16(array) if dtype == BFLOAT16 else array
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.view(torch.bfloat16) if dtype == BFLOAT16 else tensor


def padding_value(value: Any) -> Any:  # noqa: ANN401 - a user's
    """The value of a padding row in a field with such values: zeros of its shape, 0, empty text, else None.

    >>> padding_value(3.5), padding_value("word"), padding_value([1, 2])
    (0.0, '', None)
    """
    if isinstance(value, np.ndarray | np.generic):
        return np.zeros_like(value)
    if is_tensor(value):
        return value.new_zeros(value.shape)
    if isinstance(value, bool | int | float | complex | str | bytes):
        return type(value)()
    return None


def stacked(
    name: str, values: Sequence[Any], is_padding: NDArray[np.bool_], allocator: Allocator
) -> StackedField | None:
    """The values of a field in one array; None if they have no common shape, and stay a list.

    Tensors, arrays and numpy's numbers keep their dtype; Python's become bool, int64 or float64. For arrays of
    different shapes or dtypes there is a warning.
    """
    real = [value for value, is_empty in zip(values, is_padding, strict=True) if not is_empty] or list(values)
    if all(map(is_array, real)):
        return _stacked_arrays(name, values, is_padding, allocator, real)
    kind = _scalar_dtype(real)
    if kind is None:
        return None
    numbers = allocator.empty((len(values),), kind)
    numbers[:] = [0 if is_empty else value for value, is_empty in zip(values, is_padding, strict=True)]
    return StackedField(numbers, ValueKind.SCALAR, kind)


def _stacked_arrays(
    name: str, values: Sequence[Any], is_padding: NDArray[np.bool_], allocator: Allocator, real: Sequence[Any]
) -> StackedField | None:
    try:
        found = {(array.shape, dtype): array.dtype.name for array, dtype in map(as_numpy, real)}  # bfloat16 as uint16
    except TypeError:  # a dtype that torch has and numpy has not
        return None
    (shape, dtype), kind = next(iter(found.items()))
    if dtype not in _STACKED_DTYPES:
        return None
    if len(found) > 1:
        _hint(name)
        return None
    out = allocator.empty((len(values), *shape), kind)
    for row, (value, is_empty) in enumerate(zip(values, is_padding, strict=True)):
        out[row] = 0 if is_empty else as_numpy(value)[0]
    origin = ValueKind.ARRAY if isinstance(real[0], np.ndarray | np.generic) else ValueKind.TENSOR
    return StackedField(out, origin, dtype)


def _scalar_dtype(values: Sequence[Any]) -> str | None:
    """The dtype for Python's numbers, as torch chooses it; None if a value is anything else, or too large."""
    if all(isinstance(value, bool) for value in values):
        return "bool"
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in values):
        return None
    if any(isinstance(value, float) for value in values):
        return "float64"
    return "int64" if all(value in _INT64 for value in values) else None


def is_array(value: object) -> bool:
    """Whether a value is an array or number of numpy, or a tensor."""
    return isinstance(value, np.ndarray | np.generic) or is_tensor(value)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")  # if torch was never imported, there are no tensors
    return torch is not None and isinstance(value, torch.Tensor)


def _hint(name: str) -> None:
    """Warn, with the same text for every batch, so that Python shows it once."""
    warnings.warn(
        f"field {name!r} differs in shape or dtype within a batch: it stays a list of the samples' values; make them "
        "alike in the transform, or pass a collate_fn",
        stacklevel=2,
    )
