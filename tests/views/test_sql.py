"""Conditions of views are split into known tokens: what is not an expression of one row is an error."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.views.sql import TokenKind, balanced, column_name, column_parts, tokens_of


def columns(condition):
    return [token.parts for token in tokens_of(condition) if token.kind is TokenKind.COLUMN]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("snr > 20 and lang = 'de'", [("snr",), ("lang",)]),
        ("captions.snr>1", [("captions", "snr")]),
        ('metadata."a b".c = "x""y"', [("metadata", "a b", "c"), ('x"y',)]),
        ("NOT x IS NULL OR y IN (1, -2.5e3)", [("x",), ("y",)]),
        ("case when a > 1 then true else b end", [("a",), ("b",)]),
        ("end - start < 3", [("end",), ("start",)]),
        ('"and" and "case"', [("and",), ("case",)]),
        ("lower(größe) like 'a%' or cast(n as int) = 2", [("größe",), ("n",)]),
        ("text = 'and or x'", [("text",)]),
        ("int > 3", [("int",)]),
    ],
)
def test_names_of_columns_are_found(condition, expected):
    assert columns(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "select 1; drop",
        "x = 'unfinished",
        "x > 3; y",
        "x::int = 3",
        "a = `b`",
        "x = 3abc",
        "@x",
    ],
)
def test_characters_of_no_expression_are_an_error_that_shows_the_place(condition):
    with pytest.raises(ConfigError, match=r"cannot be read from .* on \(character \d+\)"):
        tokens_of(condition)


@pytest.mark.parametrize("name", ["read_csv", "read_parquet", "avg", "sum", "count", "row_number", "max", "select"])
def test_functions_of_files_and_of_many_rows_are_an_error(name):
    with pytest.raises(ConfigError, match=f"the function {name} is not allowed"):
        tokens_of(f"{name}('x') > 3")


def test_the_error_for_a_function_names_similar_ones():
    with pytest.raises(ConfigError, match="did you mean starts_with"):
        tokens_of("startswith(x, 'a')")


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
        found = tokens_of(text)
    except ConfigError:
        return
    assert "".join(token.text for token in found) == "".join(text.split()) or "'" in text or '"' in text


TERMS = st.sampled_from([
    "a", "not b", "x > 1", "x between 1 and 2", "x is not null", "x in (1, 3)", "case when a or b then b else a end",
])  # fmt: skip
CONDITIONS = st.recursive(
    TERMS,
    lambda inner: st.builds(
        lambda terms, operators, form: form.format(
            " ".join(word for pair in zip(operators, terms, strict=False) for word in pair).partition(" ")[2]
        ),
        st.lists(inner, min_size=1, max_size=6),
        st.lists(st.sampled_from(["or", "and"]), min_size=6, max_size=6),
        st.sampled_from(["{}", "({})", "not ({})"]),
    ),
    max_leaves=12,
)
ROWS = pl.DataFrame(
    [(a, b, x) for a in (True, False, None) for b in (True, False, None) for x in (0, 1, 2, 3, None)],
    schema={"a": pl.Boolean, "b": pl.Boolean, "x": pl.Int64},
    orient="row",
)


@given(CONDITIONS)
def test_a_balanced_condition_means_the_same(condition):
    words = [token.text for token in tokens_of(condition)]
    plain, halves = (ROWS.select(pl.sql_expr(text).alias("found")) for text in (condition, balanced(words)))
    assert plain.equals(halves)


@pytest.mark.parametrize("operator", ["or", "and"])
def test_a_long_chain_becomes_a_flat_tree(operator):
    text = balanced(f" {operator} ".join(["a"] * 3000).split())
    depths = [text.count("(", 0, place) - text.count(")", 0, place) for place in range(0, len(text), 100)]
    assert max(depths) <= 12
