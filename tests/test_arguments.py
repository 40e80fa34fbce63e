"""Single values where they enter."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.arguments import each, flag, number, optional, path, position, whole
from headrace.errors import ConfigError


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), np.array(7), torch.tensor(7)], ids=str)
def test_a_whole_number_of_any_kind_becomes_a_plain_int(value):
    assert type(whole("n", value)) is int
    assert whole("n", value) == 7
    assert type(position("sample", value)) is int


@pytest.mark.parametrize("value", [4.0, 2.5, np.float64(4), "4", None, True, np.True_, [4], np.array([4])], ids=str)
def test_what_is_no_whole_number_is_rejected_by_name(value):
    with pytest.raises(ConfigError, match=r"^n is .*: expected a whole number$"):
        whole("n", value)
    with pytest.raises(TypeError, match=r"^sample .*: expected one whole number$"):
        position("sample", value)


def test_whole_numbers_have_a_least():
    assert whole("n", 0, least=0) == 0
    with pytest.raises(ConfigError, match=r"^n is 0: expected a whole number, at least 1$"):
        whole("n", 0, least=1)


@pytest.mark.parametrize("value", [0.3, np.float64(0.3), np.float32(0.3), np.float16(0.3)], ids=str)
def test_a_number_of_any_kind_becomes_the_float_that_it_shows(value):
    """Weights are read as written: 0.3 of 1000 samples are 300, in single precision too."""
    assert type(number("n", value)) is float
    assert number("n", value) == 0.3


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), np.float32("nan"), "0.5", None, True], ids=str)
def test_what_is_no_positive_finite_number_is_rejected_by_name(value):
    with pytest.raises(ConfigError, match=r"^n is .*: expected a finite number above 0$"):
        number("n", value)


def test_numbers_have_a_least():
    assert number("n", 0, least=0) == 0
    with pytest.raises(ConfigError, match=r"^n is -1: expected a finite number, at least 0$"):
        number("n", -1, least=0)


@pytest.mark.parametrize("value", [True, 1, np.True_], ids=str)
def test_a_flag_becomes_a_plain_bool(value):
    assert flag("f", value) is True


@pytest.mark.parametrize("value", ["no", None, 2, 1.0], ids=str)
def test_what_is_neither_true_nor_false_is_rejected(value):
    with pytest.raises(ConfigError, match=r"^f is .*: expected True or False$"):
        flag("f", value)


def test_paths_become_strings():
    assert path("p", Path("a") / "b") == "a/b"
    for value in ("", "a\0b", 3, b"a", None):
        with pytest.raises(ConfigError, match=r"^p is .*: expected a path or URL, without NUL characters$"):
            path("p", value)


def test_a_list_is_checked_member_by_member():
    assert each("l", [1, np.int64(2)], whole, "a list of numbers") == (1, 2)
    with pytest.raises(ConfigError, match=r"^l\[1\] is 'x'"):
        each("l", [1, "x"], whole, "a list of numbers")
    for value in ("12", 3, {1: 2}):
        with pytest.raises(ConfigError, match=r"^l is .*: expected a list of numbers$"):
            each("l", value, whole, "a list of numbers")


def test_an_optional_argument_may_be_none_and_nothing_else():
    assert optional(whole)("n", None, least=1) is None
    with pytest.raises(ConfigError, match=r"^n is 0"):
        optional(whole)("n", 0, least=1)
