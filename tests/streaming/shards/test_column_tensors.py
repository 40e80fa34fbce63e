"""Columns as tensors: which values each type takes, and what is an error."""

import math

import pytest

from headrace.errors import ConfigError, SampleError
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.streaming.selection import WantedTensor
from headrace.streaming.shards.column_tensors import tensor_of_labels, tensor_of_lists, tensor_of_numbers

WANTED = WantedTensor("x")


def spec(kind):
    return ColumnSpec("x", kind)


@pytest.mark.parametrize("first", [None, [], ["a"], [1, None], [[1]], {"a": 1}, "text", 3, [10**400]])
def test_only_lists_of_numbers_are_rows_of_a_tensor(first):
    with pytest.raises(ConfigError, match="lists of numbers of one length"):
        tensor_of_lists(WANTED, spec(ColumnKind.JSON), "s", first)


@pytest.mark.parametrize("value", [[1], [1, 2, 3], [1, "a"], {"a": 1, "b": 2}, [1, None], "ab", [1, 1e39]])
def test_a_value_of_another_form_is_an_error_of_its_sample(value):
    tensor = tensor_of_lists(WANTED, spec(ColumnKind.JSON), "s", [0.5, 1])
    assert (tensor.dtype, tensor.shape, tensor.number([1, 2.5], "s")) == ("float32", (2,), [1, 2.5])
    with pytest.raises(SampleError, match="expected a list of 2 numbers"):
        tensor.number(value, "s")


def test_a_missing_list_is_nan_or_what_the_user_says():
    tensors = [tensor_of_lists(one, spec(ColumnKind.JSON), "s", [1, 2]) for one in (WANTED, WantedTensor("x", 7))]
    assert all(map(math.isnan, tensors[0].number(None, "s")))
    assert tensors[1].number(None, "s") == [7, 7]


def test_labels_of_the_user_come_before_those_of_the_build():
    built = tensor_of_labels(WANTED, spec(ColumnKind.STRING), "s", ["b", "a"])
    given = tensor_of_labels(WantedTensor("x", labels=("a", "b")), spec(ColumnKind.STRING), "s", ["b", "a"])
    assert [one.number("a", "s") for one in (built, given)] == [1, 0]
    assert [one.number(None, "s") for one in (built, given)] == [-1, -1]
    assert tensor_of_labels(WantedTensor("x", 9), spec(ColumnKind.STRING), "s", ["a"]).number(None, "s") == 9
    with pytest.raises(ConfigError, match=r"tensors\['x'\] is 0.5, and the column is int64"):
        tensor_of_labels(WantedTensor("x", 0.5), spec(ColumnKind.STRING), "s", ["a"])
    with pytest.raises(SampleError, match="'c' is not one of its labels"):
        built.number("c", "s")


@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        (ColumnKind.INT, tensor_of_numbers),
        (ColumnKind.BOOL, tensor_of_numbers),
        (ColumnKind.FLOAT, tensor_of_numbers),
        (ColumnKind.JSON, lambda wanted, spec, of_set: tensor_of_lists(wanted, spec, of_set, [1, 2])),
    ],
)
def test_labels_are_for_text_alone(kind, tensor):
    with pytest.raises(ConfigError, match=f"labels are for text, and the column is {kind}"):
        tensor(WantedTensor("x", labels=("a",)), spec(kind), "s")


@pytest.mark.parametrize("kind", [ColumnKind.INT, ColumnKind.FLOAT, ColumnKind.BOOL])
def test_a_number_that_no_tensor_holds_stands_for_nothing(kind):
    for null in (10**400, -(10**400)):
        with pytest.raises(ConfigError, match=r"tensors\['x'\] is -?10+, and the column is .*: expected"):
            tensor_of_numbers(WantedTensor("x", null), spec(kind), "s")


@pytest.mark.parametrize("kind", [ColumnKind.INTERVALS])
def test_other_types_are_no_tensors(kind):
    with pytest.raises(ConfigError, match="holds intervals"):
        tensor_of_numbers(WANTED, spec(kind), "s")
