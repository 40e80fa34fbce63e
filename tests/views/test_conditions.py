"""Conditions of views: which columns names mean, and which rows fulfil a condition."""

import itertools

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from tests.support.conditions import NAMES, NO_VALUES, kept


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("speaker", ("metadata", "string", False)),
        ("split", ("metadata", "int", False)),
        ("fact.split", ("metadata", "string", True)),
        ("metadata.split", ("metadata", "int", False)),
        ("duration_seconds", ("metadata", "float", True)),
        ("metadata.duration_seconds", ("metadata", "float", True)),
        ("captions.speaker", ("captions", "int", False)),
        ("snr", ("quality", "float", False)),
        ("quality.lang", ("quality", "string", False)),
    ],
)
def test_a_bare_name_is_the_users_then_a_fact_then_that_of_the_one_set(name, expected):
    found = NAMES.meant(name.split("."), "here")
    assert (found.set, found.spec.kind.value, found.spec.is_fact) == expected


SNR = ("float", [1.0, None, 30.0, float("nan")])
LANG = ("string", ["de", "en", None, "de"])
LOUD = ("bool", [True, None, False, True])


def test_an_error_about_a_value_names_the_users_column():
    with pytest.raises(ConfigError, match="in column lang"):
        kept("cast(lang as int) = 3", lang=LANG)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("snr > 20", [2]),
        ("not snr > 20", [0]),
        ("snr is null", [1, 3]),
        ("lang = 'de'", [0, 3]),
        ("lang <> 'de'", [1]),
        ("loud", [0, 3]),
        ("not loud", [2]),
        ("snr > 0 and lang = 'de' or loud", [0, 3]),
        ("lang in ('en', 'fr')", [1]),
        ("lang like 'd%'", [0, 3]),
        ("case when snr > 20 then true else loud end", [0, 2, 3]),
        ("coalesce(snr, 25) > 20", [1, 2, 3]),
        ("true", [0, 1, 2, 3]),
        ("false or null", []),
        ("1 = 1", [0, 1, 2, 3]),
        ("cast(snr as int) = 30", [2]),
        ("snr between 0 and 2", [0]),
        ("snr>-5 AND snr<1.5e1", [0]),
        ("loud = true", [0, 3]),
        ("lang NOT IN ('de', 'fr')", [1]),
        ('"metadata"."lang" != \'de\'', [1]),
        ("-snr < - 2", [2]),
        ("lang = 'de' -- and loud is null", None),
    ],
)
def test_rows_that_fulfil_a_condition(condition, rows):
    if rows is None:  # a comment is no comment: both minus signs are operators
        with pytest.raises(ConfigError):
            kept(condition, snr=SNR, lang=LANG, loud=LOUD)
    else:
        assert kept(condition, snr=SNR, lang=LANG, loud=LOUD) == rows


@given(st.lists(st.none() | st.floats(-5, 5), max_size=20), st.floats(-5, 5))
def test_a_comparison_keeps_what_python_keeps(values, limit):
    expected = [row for row, value in enumerate(values) if value is not None and value > limit]
    assert kept(f"x > {limit!r}", x=("float", values)) == expected


NUMBERS = {
    "int": [2**53 + 1, 2**53, 1, 0, None, -(2**63)],
    "float": [2.0**53, 1.0, 0.5, 0.0, None],
    "bool": [True, False, None],
}
ITEMS = (2**53 + 1, 2**53, float(2**53), -(2**63), 1, 1.0, 0.5, True, False, None)


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_list_means_each_of_its_values(kind):
    for items in itertools.combinations(ITEMS, 2):
        one, other = ("null" if item is None else str(item).lower() for item in items)
        for sign, meaning in (("in", "x = {} or x = {}"), ("not in", "not (x = {} or x = {})")):
            expected = kept(meaning.format(one, other), x=(kind, NUMBERS[kind]))
            assert kept(f"x {sign} ({one}, {other})", x=(kind, NUMBERS[kind])) == expected, items


@pytest.mark.medium
def test_a_condition_may_have_thousands_of_terms():
    """Polars needs minutes for a tree of this depth."""
    terms = " or ".join(f"snr = {number}" for number in range(0, 6000, 2))
    assert kept(terms, snr=("float", [1.0, 2.0, 5998.0, 6000.0])) == [1, 2]


"""Functions whose value for null docs/config.md states."""
"""A column and a literal for each kind of operand."""


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("coalesce(n, x, 3) = 3", [0]),
        ("coalesce(n, null) is null", [0]),
        ("ifnull(t, 'a') = 'a'", [0]),
        ("if(b, 1, 2) = 2", [0]),
        ("if(null, true, false) or not b", []),
        ("if(true, n, 1) is null", [0]),
        ("concat(t, 'a', n, 1.5, true) = 'a1.5true'", [0]),
        ("concat(t, null) = ''", [0]),
        ("greatest(n, 2, x) = 2", [0]),
        ("greatest(t, 'a') = 'a'", [0]),
        ("least(null, 3, n) = 3", [0]),
        ("least(n, x) is null", [0]),
        ("nullif(2, 2) is null", [0]),
        ("b or true", [0]),
        ("not (b and false)", [0]),
        ("1 in (n, 1)", [0]),
        ("not (5 between 6 and n)", [0]),
        ("case when b then false else true end", [0]),
        ("case n when null then false else true end", [0]),
        ("n is null and not n is not null", [0]),
    ],
)
def test_the_operations_that_see_null_follow_the_documented_rule(condition, rows):
    assert kept(condition, **NO_VALUES) == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (" and ".join(["x between 0 and 2"] * 300), [0]),
        (" or ".join(["x between 5 and 7 and not x between 8 and 9"] * 300), []),
        ("case " + " ".join(f"when x = {number} then false" for number in range(2, 200)) + " else true end", [0]),
        ("x in (" + ", ".join(map(str, range(5000))) + ")", [0, 1]),
        ("x in (" + ", ".join(["x + 1"] * 100) + ", x)", [0, 1]),
        ("x" + " + 1" * 90 + " > 92", [1]),
        ("concat(" + ", ".join(["x"] * 1000) + ") like '1.01.0%'", [0]),
        ("x = " + " - (".join(["1"] * 40) + ")" * 39, []),
    ],
    ids=range(8),
)
def test_long_conditions_are_evaluated(condition, rows):
    assert kept(condition, x=("float", [1.0, 9.0 - 6.0])) == rows


def test_a_condition_sees_as_many_rows_as_there_are():
    assert kept("true", x=("float", [])) == []
    assert kept("1 + 1 = 2 and x > 1", x=("float", [])) == []


TERMS = st.sampled_from([
    "a", "not b", "x > 1", "x between 1 and 2", "x is not null", "x in (1, 3)", "case when a or b then b else a end",
    "x + 1 * 2 > 3", "-x < -1", "(x - 1) / 2 = 1", "x not in (1, 2)", "not a = b", "x % 2 = 1", "x > 1 is null",
    "x <> 2",
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
    max_leaves=8,
)
ROWS = [(a, b, x) for a in (True, False, None) for b in (True, False, None) for x in (0, 1, 2, 3, None)]


@pytest.mark.medium
@given(CONDITIONS)
def test_a_condition_means_what_it_means_in_the_sql_of_polars(condition):
    a, b, x = zip(*ROWS, strict=True)
    frame = pl.DataFrame(ROWS, schema={"a": pl.Boolean, "b": pl.Boolean, "x": pl.Int64}, orient="row")
    expected = frame.select(pl.sql_expr(condition).fill_null(value=False).arg_true()).to_series().to_list()
    assert kept(condition, a=("bool", list(a)), b=("bool", list(b)), x=("int", list(x))) == expected
