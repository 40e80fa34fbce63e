"""Pads fields whose values differ in length, such as tokens that a transform makes, into one array.

Which fields these are, and what they are padded with, the user says. Values of one shape are stacked by `user_fields`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import ConfigError, SampleError
from headrace.format.tensors.tensors import BFLOAT16, storage_dtype
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.user_fields import StackedField, ValueKind, as_numpy, is_array, is_tensor
from headrace.streaming.samples.fields import is_taken

LENGTH = "_length"
"""End of the name of the field with the lengths."""


def padded_itself(name: str) -> str:
    """The message for a field that is to be padded, but not by the user."""
    return (
        f"pad: {name!r} is no field of a transform, and a batch pads its own fields itself: leave it out, "
        "or let the transform give its values another name"
    )


def as_ragged(name: str, value: Any) -> Any:  # noqa: ANN401 - a user's
    """A value that can be padded: an array or tensor (L, …); lists of numbers become arrays.

    Raises:
        ConfigError: a batch has a field of this name of its own.
        SampleError: the value is something else.
    """
    if is_taken(name):
        raise ConfigError(padded_itself(name))
    array = np.asarray(value) if isinstance(value, list | tuple) and not any(map(is_array, value)) else value
    if isinstance(value, list | tuple) and not len(value):
        array = np.zeros(0, np.int64)
    if is_array(array) and array.ndim and (not isinstance(array, np.ndarray) or array.dtype.kind in "biufc"):
        return array
    raise SampleError(
        f"pad: {name!r} is {type(value).__name__}, expected an array, a tensor or a list of numbers, of shape (L, …)"
    )


def padded(name: str, values: Mapping[int, Any], num_rows: int, fill: float, allocator: Allocator) -> StackedField:
    """The values of a field in one array (B, L, …), where L is the greatest length, with the length of each row.

    Args:
        name: the field.
        values: the value of each row that is not padding.
        num_rows: number of rows, with padding.
        fill: what rows are filled with after their end; padding rows consist of it, and have the length 0.
        allocator: allocates the array.

    Raises:
        ConfigError: rows differ in dtype or in the shape of one element, or the dtype cannot hold `fill`.
        SampleError: a value cannot be padded.
    """
    ragged = {row: as_ragged(name, value) for row, value in values.items()}
    arrays = {row: as_numpy(value) for row, value in ragged.items()}
    forms = {(array.shape[1:], dtype) for array, dtype in arrays.values() if len(array)}
    if len(forms) > 1:
        shown = " and ".join(f"({', '.join(map(str, ('L', *shape)))}) {dtype}" for shape, dtype in sorted(forms))
        raise ConfigError(f"pad: {name!r} differs within a batch: {shown}; let the transform make the samples alike")
    forms = forms or {(array.shape[1:], dtype) for array, dtype in arrays.values()} or {((), "int64")}
    shape, dtype = min(forms)
    length = max((len(array) for array, _ in arrays.values()), default=0)
    out = allocator.empty((num_rows, length, *shape), storage_dtype(dtype))
    if dtype != BFLOAT16:
        _check_fill(name, fill, out.dtype)
    out[:] = _bits(fill) if dtype == BFLOAT16 else fill
    lengths = np.zeros(num_rows, np.int64)
    for row, (array, _) in arrays.items():
        out[row, : len(array)] = array
        lengths[row] = len(array)
    are_tensors = any(map(is_tensor, ragged.values()))
    return StackedField(out, ValueKind.TENSOR if are_tensors else ValueKind.ARRAY, dtype, lengths)


def _check_fill(name: str, fill: float, dtype: np.dtype[Any]) -> None:
    """Raise `ConfigError` if whole numbers or bools are to be padded with something else."""
    if dtype.kind not in "biu":
        return
    least, greatest = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not (least <= fill <= greatest and fill == int(fill)):
        raise ConfigError(f"pad[{name!r}] is {fill!r}, and the values are {dtype.name}: pass a value of this type")


def _bits(fill: float) -> int:
    """A number as the bits of a bfloat16."""
    return int(np.float32(fill).view(np.uint32) >> 16)
