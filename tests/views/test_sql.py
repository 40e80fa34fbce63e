"""Conditions of views are split into tokens, and names of columns are spelled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.views.sql import column_name, column_parts, tokens_of


@pytest.mark.parametrize(
    "condition",
    ["select 1; drop", "x = 'unfinished", "x > 3; y", "x::int = 3", "a = `b`", "x = 3abc", "@x", "x = 0x10",
     "x = 1_000", "x /* y */ = 3 # z", "x[1] = 2", "x = ?", "x = $1", "x = {y}", "x & 1 = 1", "x ^ 2 > 1",
     "x ~ 'a'"],
)  # fmt: skip
def test_characters_of_no_expression_are_an_error_that_shows_the_place(condition):
    with pytest.raises(ConfigError, match=r"cannot be read from .* on \(character \d+\)"):
        list(tokens_of(condition))


@pytest.mark.parametrize("name", ["a b", "a.", "a,b", "", "a > 3", "'a'"])
def test_a_single_column_is_nothing_else(name):
    with pytest.raises(ConfigError, match="is not the name of a column"):
        column_parts(name)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=2))
def test_the_spelling_of_a_column_is_read_back(parts):
    assert column_parts(column_name(*parts)) == tuple(parts)


@given(st.text(max_size=30))
def test_any_text_is_split_or_rejected(text):
    try:
        found = list(tokens_of(text))
    except ConfigError:
        return
    assert "".join(token.text for token in found) == "".join(text.split()) or "'" in text or '"' in text
    assert all(text.startswith(token.text, token.place) for token in found)
