"""Tests of `headrace.locate.names`."""

import pytest

from headrace.locate.names import expand_braces


def test_braces_expand_as_a_shell_does():
    assert expand_braces("a-{8..10}.tar") == ["a-8.tar", "a-9.tar", "a-10.tar"]
    assert expand_braces("{a,b}{0..1}") == ["a0", "a1", "b0", "b1"]
    assert expand_braces("a-{02..00}") == ["a-02", "a-01", "a-00"]
    assert expand_braces("plain.tar") == ["plain.tar"]
    assert expand_braces("{a..c}-{00..10..5}") == [f"{letter}-{n}" for letter in "abc" for n in ("00", "05", "10")]
    assert expand_braces("{a,b{1,2}}.tar") == ["a.tar", "b1.tar", "b2.tar"]


@pytest.mark.parametrize("name", ["one{a}.tar", "half{a-{0..2}.tar", "back\\{slash.tar", "}{"])
def test_braces_that_mean_nothing_are_part_of_a_name(name):
    assert expand_braces(name) == [name]
