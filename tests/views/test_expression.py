"""Tests of `headrace.views.expression`."""

import pytest

from headrace.errors import ConfigError
from headrace.views.expression import Condition
from tests.support.conditions import NAMES


def test_a_name_in_several_sets_is_an_error_with_both_spellings():
    with pytest.raises(ConfigError, match=r"where 'lang = 1': several sets .*: write captions\.lang or quality\.lang"):
        Condition.of("lang = 1", NAMES)


@pytest.mark.parametrize(
    "condition",
    [
        "snr > ",
        "(snr > 3",
        "snr 3",
        "text > 3",
        "snr and text = 'a'",
        "select from text",
        "",
        "snr > 3 end",
        "text + 1 > 2",
    ],
)
def test_a_condition_that_cannot_be_read_is_an_error_with_the_condition(condition):
    with pytest.raises(ConfigError, match="where "):
        Condition.of(condition, NAMES)


@pytest.mark.parametrize("condition", ["snr", "snr + 1", "text", "1"])
def test_what_is_neither_true_nor_false_is_an_error(condition):
    with pytest.raises(ConfigError, match="not true or false"):
        Condition.of(condition, NAMES)
