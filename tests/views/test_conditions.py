"""Conditions of views: which columns names mean, and which rows fulfil a condition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.format.beside.column_table import Column
from headrace.views.expression import Condition
from headrace.views.names import ColumnNames
from headrace.views.sql import FUNCTIONS
from tests.support.conditions import NAMES, spec


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


def kept(condition, **columns):
    """Rows that fulfil a condition; columns are given as kind and values, of one set."""
    specs = {name: spec(name, kind) for name, (kind, _) in columns.items()}
    made = {name: Column.of(specs[name], values) for name, (_, values) in columns.items()}
    found = Condition.of(condition, ColumnNames({"metadata": list(specs.values())}))
    num_rows = len(next(iter(made.values())))
    mask = found.mask([made[column.spec.name] for column in found.columns], num_rows)
    assert mask.shape == (num_rows,)
    return mask.nonzero()[0].tolist()


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


CALLS = {
    "abs": "abs(x) > 1", "ceil": "ceil(x) > 1", "ceiling": "ceiling(x) > 1", "floor": "floor(x) > 1",
    "round": "round(x, 1) > 1", "sqrt": "sqrt(x) > 1", "exp": "exp(x) > 1", "ln": "ln(x) > 1", "log10": "log10(x) > 1",
    "log2": "log2(x) > 1", "pow": "pow(x, 2) > 1", "power": "power(x, 2) > 1", "sign": "sign(x) > 0",
    "mod": "mod(n, 2) = 1", "coalesce": "coalesce(x, 0) = 0", "ifnull": "ifnull(x, 0) = 0",
    "nullif": "nullif(n, 3) is null", "greatest": "greatest(x, n) > 3", "least": "least(x, n) > 3",
    "if": "if(x > 1, true, false)", "lower": "lower(t) = 'xe'", "upper": "upper(t) = 'DE'", "length": "length(t) = 2",
    "left": "left(t, 1) = 'd'", "right": "right(t, 1) = 'e'", "ltrim": "ltrim(t) = 'de'", "rtrim": "rtrim(t) = 'de'",
    "starts_with": "starts_with(t, 'd')", "ends_with": "ends_with(t, 'e')", "strpos": "strpos(t, 'e') = 2",
    "regexp_like": "regexp_like(t, '^d')", "replace": "replace(t, 'd', 'x') = 'xe'",
    "substr": "substr(t, 2, 1) = 'e'", "concat": "concat(t, t) = 'dede'",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_of_the_list_sees_one_row_at_a_time(name):
    columns = {"x": ("float", [1.5, -4.0, 9.0]), "n": ("int", [3, 4, 5]), "t": ("string", ["de", "Xe", "d_e"])}
    together = kept(CALLS[name], **columns)
    alone = [
        row
        for row in range(3)
        if kept(CALLS[name], **{c: (kind, values[row : row + 1]) for c, (kind, values) in columns.items()})
    ]
    assert together == alone


@given(st.lists(st.none() | st.floats(-5, 5), max_size=20), st.floats(-5, 5))
def test_a_comparison_keeps_what_python_keeps(values, limit):
    expected = [row for row, value in enumerate(values) if value is not None and value > limit]
    assert kept(f"x > {limit!r}", x=("float", values)) == expected


def test_a_condition_may_have_thousands_of_terms():
    """Polars needs minutes for a tree of this depth."""
    terms = " or ".join(f"snr = {number}" for number in range(0, 6000, 2))
    assert kept(terms, snr=("float", [1.0, 2.0, 5998.0, 6000.0])) == [1, 2]
