"""Columns that come as tensors: numbers as they are, text as the numbers of its labels, lists of one length as rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import ConfigError, SampleError
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.streaming.selection import WantedTensor

TENSOR_DTYPES = {ColumnKind.FLOAT: "float32", ColumnKind.INT: "int64", ColumnKind.BOOL: "bool"}
_LEAST_INT, _GREATEST_INT = -(1 << 63), (1 << 63) - 1
_NO_LABEL = -1
_GREATEST_FLOAT = (2 - 2**-23) * 2.0**127
_HELD = {ColumnKind.JSON: "lists or objects", ColumnKind.INTERVALS: "intervals"}


@dataclass(frozen=True, slots=True)
class TensorColumn:
    """A column that comes as a tensor.

    Attributes:
        spec: name and type.
        null: the value where the column has none; None if that is an error.
        labels: text → its number; None for other columns.
        length: numbers of each list; None for other columns.
    """

    spec: ColumnSpec
    null: float | None
    labels: Mapping[str, int] | None = None
    length: int | None = None

    @property
    def dtype(self) -> str:
        """The tensor's dtype: float32, int64 or bool."""
        if self.length is not None:
            return "float32"
        return "int64" if self.labels is not None else TENSOR_DTYPES[self.spec.kind]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sample's tensor."""
        return () if self.length is None else (self.length,)

    def number(self, value: Any, of_set: str) -> float | list[float]:  # noqa: ANN401 - a value of a column
        """A value as a number, or as a list of `length` numbers; None is no value.

        Raises:
            SampleError: there is no value, and the tensor's dtype cannot say so; a text is not one of the labels; or a
                list has another length.
        """
        name = f"column {self.spec.name!r} of the set {of_set!r}"
        if value is None:
            if self.null is None:
                raise SampleError(
                    f"{name} has no value, and a tensor of type {self.dtype} cannot say so: pass the value that stands "
                    f"for it, such as tensors={{{self.spec.name!r}: {'False' if self.dtype == 'bool' else -1}}}"
                )
            return self.null if self.length is None else [self.null] * self.length
        if self.length is not None:
            if not are_numbers(value) or len(value) != self.length:
                raise SampleError(f"{name}: expected a list of {self.length} numbers, as its first value is")
            found: list[float] = value
            return found
        if self.labels is None:
            number: float = value
            return number
        if value not in self.labels:
            raise SampleError(f"{name}: {value!r} is not one of its labels; add it to them")
        return self.labels[value]


def tensor_of_numbers(wanted: WantedTensor, spec: ColumnSpec, of_set: str) -> TensorColumn:
    """A column of numbers as a tensor. Raises `ConfigError` if it holds something else, or cannot hold `null`."""
    if spec.kind not in TENSOR_DTYPES:
        raise ConfigError(_other_content(spec, of_set))
    _check_no_labels(wanted, spec)
    is_float = spec.kind is ColumnKind.FLOAT
    return _checked(TensorColumn(spec, math.nan if is_float and wanted.null is None else wanted.null))


def tensor_of_labels(wanted: WantedTensor, spec: ColumnSpec, of_set: str, built: Sequence[str] | None) -> TensorColumn:
    """A column of text as the places of its values in the user's list, or in that of the build.

    Raises:
        ConfigError: there is no list.
    """
    labels = built if wanted.labels is None else wanted.labels
    if labels is None:
        raise ConfigError(
            f"tensors: {spec.name!r} of the set {of_set!r} holds text, whose values have no numbers: pass them in "
            f"order, tensors={{{spec.name!r}: ['first', 'second']}}; or write source.labels: [{spec.name}] in the "
            "YAML and build again, or read it from the metadata, with columns=[…]"
        )
    null = _NO_LABEL if wanted.null is None else wanted.null
    return _checked(TensorColumn(spec, null, {label: place for place, label in enumerate(labels)}))


def tensor_of_lists(wanted: WantedTensor, spec: ColumnSpec, of_set: str, first: object) -> TensorColumn:
    """A column of lists as float32, as long as its first value. Raises `ConfigError` if that is no list of numbers."""
    _check_no_labels(wanted, spec)
    if not isinstance(first, list) or not are_numbers(first):
        raise ConfigError(_other_content(spec, of_set))
    return _checked(TensorColumn(spec, math.nan if wanted.null is None else wanted.null, length=len(first)))


def are_numbers(value: object) -> bool:
    """Whether a value is a list of numbers that float32 holds, at least one."""
    return (
        isinstance(value, list)
        and bool(value)
        and {type(one) for one in value} <= {int, float, bool}
        and all(abs(one) <= _GREATEST_FLOAT for one in value)
    )


def _check_no_labels(wanted: WantedTensor, spec: ColumnSpec) -> None:
    if wanted.labels is not None:
        raise ConfigError(f"tensors[{spec.name!r}]: labels are for text, and the column is {spec.kind}")


def _other_content(spec: ColumnSpec, of_set: str) -> str:
    return (
        f"tensors: {spec.name!r} of the set {of_set!r} holds {_HELD[spec.kind]}, and only numbers, bools, labels and "
        "lists of numbers of one length come as tensors: read it from the metadata, with columns=[…]"
    )


def _checked(tensor: TensorColumn) -> TensorColumn:
    """The tensor. Raises `ConfigError` if it cannot hold the value that stands for no value."""
    null = tensor.null
    if null is None:
        return tensor
    is_finite = isinstance(null, int) or math.isfinite(null)
    if tensor.dtype == "bool":
        fits, expected = null in {0, 1}, "True or False"
    elif tensor.dtype == "int64":
        fits = is_finite and int(null) == null and _LEAST_INT <= null <= _GREATEST_INT
        expected = "a whole number of 64 bits"
    else:
        fits, expected = not is_finite or abs(null) <= _GREATEST_FLOAT, "a number of 32 bits"
    if fits:
        return tensor
    raise ConfigError(
        f"tensors[{tensor.spec.name!r}] is {null!r}, and the column is {tensor.dtype}: expected {expected}"
    )
