"""Conditions of views: which columns names mean, and which rows fulfil a condition."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.format.beside.column_table import Column
from headrace.views.expression import Condition
from headrace.views.functions import FUNCTIONS
from headrace.views.names import ColumnNames
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


TYPES = {"x": "float", "n": "int", "t": "string", "b": "bool"}
LENIENT = {"coalesce", "ifnull", "if", "concat", "greatest", "least"}
"""Functions whose value for null docs/config.md states."""
VALUES = {
    "t": ("t", "'i'"),
    "n": ("n", "2"),
    "w": ("n", "1"),
    "x": ("t", "'i'"),
    "a": ("n", "2"),
    "b": ("b", "true"),
    "d": ("", "0"),
}
"""A column and a literal for each kind of operand."""


def null_calls(name):
    """Calls of a function with null in each operand in turn, as a column and as a literal."""
    takes = FUNCTIONS[name].takes
    letters = takes.lower().rstrip("*")
    for count in range(1, len(letters) + 1):
        if count < len(letters) and not takes[count].isupper():
            continue
        for null in range(count):
            for spelled in ("column", "literal"):
                if letters[null] == "d" and spelled == "column":
                    continue
                given = [VALUES[letter][1] for letter in letters[:count]]
                given[null] = "null" if spelled == "literal" else VALUES[letters[null]][0]
                yield f"{name}({', '.join(given)})"


NO_VALUES = {name: (kind, [None]) for name, kind in TYPES.items()}


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - LENIENT))
def test_a_function_of_null_is_null(name):
    calls = list(null_calls(name))
    assert calls
    for call in calls:
        assert kept(f"{call} is null", **NO_VALUES) == [0], call


@pytest.mark.parametrize(
    "operation",
    [
        "n + 1", "1 - n", "n * 0", "n / 2", "2 % n", "-n", "+x", "t || 'a'", "'a' || t", "n = 1", "n <> 1", "n < 1",
        "1 <= x", "x > n", "t >= 'a'", "t like '%'", "t not like '%'", "'a' like t", "t ilike 'a'", "n in (1, 2)",
        "n not in (1, 2)", "1 in (n, 2)", "1 in (null, 2)", "1 not in (null, 2)", "1 in (n, x)", "n between 0 and 9",
        "1 between n and 2", "n not between 0 and 9", "not b", "b and true", "b or false", "cast(n as text)",
        "cast(t as int)", "case when b then 1 end", "case n when 1 then true end", "null", "n + null",
    ],
)  # fmt: skip
def test_an_operation_on_null_is_null(operation):
    assert kept(f"({operation}) is null", **NO_VALUES) == [0]


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


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    "expression",
    [
        "n + 1", "1 + n", "n - -1", "n * 2", "m - 1", "m * m", "-m", "abs(m)", "m - n", "n + true", "length('ab') + n",
        "n * (n - 1)", "9223372036854775807 + 1", "cast('9223372036854775807' as int) + 1", "-9223372036854775808 - 1",
        "cast(1e19 as int)", "cast(x as bigint)",
    ],
)  # fmt: skip
def test_a_whole_number_that_leaves_64_bits_is_an_error(expression):
    with pytest.raises(ConfigError, match=r"more than 64 bits|conversion from"):
        kept(f"{expression} <> 0", n=("int", [1, LARGEST]), m=("int", [1, -LARGEST - 1]), x=("float", [1.0, 1e19]))


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("pow(n, 2) > 1e37", [1]),
        ("power(2, n) > 1e300", [1]),
        ("pow(2, -1) = 0.5", [0, 1]),
        ("n / 2 > 4e18", [1]),
        ("cast(n as double) + 1 > 9e18", [1]),
        ("cast(16777217 as float) = 16777217", [0, 1]),
        ("cast(5e9 as int) = 5000000000", [0, 1]),
        ("2000000000 + 2000000000 = 4000000000", [0, 1]),
        ("n - 1 = 9223372036854775806", [1]),
        ("n = 9223372036854775807", [1]),
        ("n in (9223372036854775806)", []),
        ("length(t) - length('abcd') < 0", [0, 1]),
        ("length(t) * -1 = -3", [1]),
        ("strpos(t, 'x') - 1 = -1", [0, 1]),
        ("left(t, length(t) - 5) = ''", [0]),
        ("m % -1 = 0", [0, 1]),
        ("mod(-3, 2) = -1 and -n % 2 = -1 and mod(3, -2) = 1 and mod(-3.5, 2) = -1.5", [0, 1]),
        ("mod(n, 0) is null", [0, 1]),
    ],
)
def test_numbers_are_computed_without_wrapping(condition, rows):
    columns = {"n": ("int", [1, LARGEST]), "m": ("int", [1, -LARGEST - 1]), "t": ("string", ["a", "bcd"])}
    assert kept(condition, **columns) == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("strpos(t, 'e') = 5", [0]),
        ("strpos(t, '') = 1", [0, 1]),
        ("substr(t, strpos(t, 'e'), 1) = 'e'", [0]),
        ("substr(t, 2) = 'röße'", [0]),
        ("substr(t, 0, 3) = 'gr'", [0]),
        ("substr(t, -5, 3) = ''", [0, 1]),
        ("left(t, 2) = 'gr' and right(t, 2) = 'ße' and left(t, -1) = 'größ'", [0]),
        ("t like 'gr__e' and t like 'g%' and t not like 'r%' and t ilike 'GR%'", [0]),
        ("t like 'a.b' or t like '(%'", []),
        ("t like 'a%c'", [1]),
        ("t like t", [0, 1]),
        ("regexp_like(t, '^G') or regexp_like(t, '^G', 'i')", [0]),
        ("replace(t, '.', '') = t and replace(t, 'g', '$0') like '$0%'", [0]),
        ("ltrim(t, 'gr') = 'öße' and rtrim(t, 'e') = 'größ'", [0]),
        ("t || 1 || true = 'größe1true'", [0]),
        ("t in ('größe', 'x', null)", [0]),
        ("1 in (1.5, 1) and 1.5 in (1, 1.5) and true in (true) and not 2 in (1, 3.5)", [0, 1]),
        ("round(2.5) = 2 and round(3.25, 1) = 3.2 and floor(-0.5) = -1 and sign(-3) = -1", [0, 1]),
    ],
)
def test_texts_and_numbers_have_the_values_of_sql(condition, rows):
    assert kept(condition, t=("string", ["größe", "a\nb.c"])) == rows


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("lower(x) = 'a'", "LOWER takes a text; operand 1 is Float64"),
        ("left(t, x) = 'a'", "LEFT takes a text; a whole number; operand 2 is Float64"),
        ("t > 3", "> takes values of one type"),
        ("t in (1, 2)", "IN takes values of one type"),
        ("x in ('a')", "IN takes values of one type"),
        ("x in (1, 'a')", "the list of IN has texts and numbers"),
        ("x in (x, t)", "= takes values of one type"),
        ("coalesce(x, 'a') = 'a'", "COALESCE takes values of one type"),
        ("x and b", "AND takes a condition; a condition; operand 1 is Float64"),
        ("b or 1", "OR takes a condition; a condition; operand 2 is Int64"),
        ("not x", "NOT takes a condition"),
        ("case when x then true end", "IF takes a condition"),
        ("t + 1 > 2", r"\+ takes a number; a number; operand 1 is String"),
        ("round(x, -1) > 1", "ROUND takes a number; a whole number from 0 on, as a literal, if wanted"),
        ("round(x, n) > 1", "ROUND takes"),
        ("abs() > 1", "expected a column"),
        ("abs(x, x) > 1", "ABS takes a number; found 2 operands"),
        ("mod(x) > 1", "MOD takes a number; a number; found 1 operands"),
        ("startswith(t, 'a')", "the function startswith is not allowed.* did you mean starts_with"),
        ("regexp_like(t, '(')", "regex"),
    ],
)
def test_operands_that_do_not_fit_are_an_error(condition, message):
    with pytest.raises(ConfigError, match=f"where .*{message}"):
        kept(condition, x=("float", [1.0]), t=("string", ["a"]), b=("bool", [True]), n=("int", [1]))


@pytest.mark.parametrize("name", ["read_csv", "read_parquet", "avg", "sum", "count", "row_number", "max", "select"])
def test_functions_of_files_and_of_many_rows_are_an_error(name):
    with pytest.raises(ConfigError, match=f"the function {name} is not allowed"):
        kept(f"{name}('x') > 3", x=("float", [1.0]))


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


@given(CONDITIONS)
def test_a_condition_means_what_it_means_in_the_sql_of_polars(condition):
    a, b, x = zip(*ROWS, strict=True)
    frame = pl.DataFrame(ROWS, schema={"a": pl.Boolean, "b": pl.Boolean, "x": pl.Int64}, orient="row")
    expected = frame.select(pl.sql_expr(condition).fill_null(value=False).arg_true()).to_series().to_list()
    assert kept(condition, a=("bool", list(a)), b=("bool", list(b)), x=("int", list(x))) == expected
