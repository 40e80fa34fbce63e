"""Conditions of views are parsed: what is not one expression is an error that shows the place."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.views.syntax import MAX_CALLS, MAX_DEPTH, Call, Literal, Name, names_in, parsed


def shown(node):
    """A tree as nested lists."""
    match node:
        case Name(parts):
            return ".".join(parts)
        case Literal(value):
            return value
        case Call(function, operands):
            return [function, *map(shown, operands)]


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
        ("int > 3 or int < as", [("int",), ("as",)]),
        ("case a when 1 then b else c end = when", [("a",), ("b",), ("c",), ("when",)]),
        ("date > 3 and left = select and interval", [("date",), ("left",), ("select",), ("interval",)]),
    ],
)
def test_names_of_columns_are_found_once_and_in_order(condition, expected):
    assert names_in(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a or b and c or d", ["or", "a", ["and", "b", "c"], "d"]),
        ("not a = 1 and b", ["and", ["not", ["=", "a", 1]], "b"]),
        ("not not a", ["not", ["not", "a"]]),
        ("a + 2 * b - -3 = 1", ["=", ["-", ["+", "a", ["*", 2, "b"]], -3], 1]),
        ("-a * 2 < +b", ["<", ["*", ["-x", "a"], 2], ["+x", "b"]]),
        ("a || b + 1 == 'x'", ["=", ["||", "a", ["+", "b", 1]], "x"]),
        ("a between 1 and 2 and b", ["and", ["between", "a", 1, 2], "b"]),
        ("a not between 1 + 1 and 2 or b", ["or", ["not", ["between", "a", ["+", 1, 1], 2]], "b"]),
        ("a not in (1, b) and c not like 'x'", ["and", ["not", ["in", "a", 1, "b"]], ["not", ["like", "c", "x"]]]),
        ("a = 3 is null", ["is null", ["=", "a", 3]]),
        ("a is not null is null", ["is null", ["not", ["is null", "a"]]]),
        ("(a > 1) = (b is null)", ["=", [">", "a", 1], ["is null", "b"]]),
        ("case when a then 1 when b then 2 end <> 1", ["<>", ["case", "a", 1, "b", 2, None], 1]),
        ("case a when 'x' then 1 else 2 end != 1", ["<>", ["case", ["=", "a", "x"], 1, 2], 1]),
        ("CAST(a AS Int) >= -9223372036854775808", [">=", ["cast", "a", "int"], -(1 << 63)]),
        ("Round(a, 1) < .5 or 'it''s' = b", ["or", ["<", ["round", "a", 1], 0.5], ["=", "it's", "b"]]),
        ("TRUE or FALSE or NULL", ["or", True, False, None]),
    ],
)
def test_operators_bind_as_in_sql(condition, expected):
    assert shown(parsed(condition)) == expected


OPERANDS = ["x", "15", "'ok'", '"ok"', "(x > 1)", "x > 15", "lower(t)", "case when a then b end", "cast(x as int)",
            "null", "a is null", "x in (1, 2)", "x between 1 and 2", "t like 'a'", "-3", "true", "a.b"]  # fmt: skip
SECOND = ["ok", "15", "'ok'", '"ok"', "(x)", "lower(t)", "case when a then b end", "cast(x as int)",
          "null", "not x", "as y", "true", "end", "from t", "where x", "limit 3", "collate x", "over (x)",
          "a.b", ".5"]  # fmt: skip


@pytest.mark.parametrize("second", SECOND)
def test_two_operands_side_by_side_are_an_error(second):
    for first in OPERANDS:
        if second == "(x)" and first in {"x", '"ok"', "a.b", "x > 15"}:  # `x (x)` is a call
            continue
        for form in ("{} {}", "y > 1 and ({} {})", "{} {} or y", "z in (abs({} {}))"):
            with pytest.raises(ConfigError, match=r"\(character \d+\)"):
                parsed(form.format(first, second))


@pytest.mark.parametrize(
    "condition",
    [
        "snr > 15 ok", "snr > 15 'ok'", "(snr > 15) category", "snr > 15 -- comment", "snr = 'a' 'b'", "a = b = c",
        "1 < x < 3", "a is null = false", "a like 'x' like 'y'", "a between 1 and 2 between 3 and 4", "a = not b",
        "", "  ", "()", "x in ()", "x in 1", "x in (1,)", "f()", "f(,)", "x >", "x > and y", "and", "or x", "x and",
        "not", "(x", "x)", "x between 1", "x between 1 or 2", "x is", "x is true", "x is not 3",
        "x not null", "x isnull",
        "case end", "case when a end", "case when a then b", "case x then 1 end", "cast(x)", "cast(x as date)",
        "cast(x int)", "cast x as int", "date '2020-01-01' = x", "interval 5 day = x", "N'5' = x", "select x from y",
        "x = 9223372036854775808", "x > -9223372036854775809", "a.f(x) = 1", '"lower"(x) = 1',
        "x = (select 1)", "count(*) > 1", "*", "a.*", "x, y", "x - - > 3", "x ! = 3", "x > = 3", "x <> <> 3", "f(x) g",
    ],
)  # fmt: skip
def test_what_is_not_one_expression_is_an_error_with_the_condition(condition):
    with pytest.raises(ConfigError, match="where "):
        parsed(condition)


@given(
    st.lists(
        st.sampled_from([*OPERANDS, *SECOND, "and", "or", "not", "(", ")", ",", "+", "<", "is", "in", "between"]),
        max_size=9,
    )
)
def test_any_words_are_parsed_or_rejected(words):
    with contextlib.suppress(ConfigError):
        names_in(" ".join(words))


@pytest.mark.parametrize(
    "condition",
    [
        "x" + " + 1" * 1000 + " > 1",
        "x" + " || 'a'" * 1000 + " = 'a'",
        "not " * 2000 + "x",
        "-" + " - " * 2000 + "x > 1",
        "(" * 2000 + "x" + ")" * 2000,
        "abs(" * 2000 + "x" + ")" * 2000,
        "x in (" * 2000 + "1" + ")" * 2000,
        "case when " * 2000,
        "cast(" * 2000 + "x",
        "x between (" * 2000,
        " or ".join(["x > 1"] * (MAX_CALLS + 1)),
        "coalesce(" + ", ".join(["abs(x)"] * (MAX_CALLS + 1)) + ") > 1",
    ],
    ids=lambda condition: condition[:12],
)
def test_a_condition_that_is_too_deep_or_too_long_is_refused_at_once(condition):
    with pytest.raises(ConfigError, match=r"more than (100|20,000) operators") as caught:
        parsed(condition)
    assert len(str(caught.value)) < 400


def test_the_limit_of_depth_is_reached_by_nothing_smaller():
    assert parsed("x" + " + 1" * (MAX_DEPTH - 1) + " > 1").depth == MAX_DEPTH
    parsed("(" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1))
    assert parsed(" or ".join(["x between 1 and 2"] * 3000)).depth == 2
