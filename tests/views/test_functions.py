"""Functions and operators of conditions: what they take, null, and values as in SQL."""

from itertools import product

import pytest

from headrace.errors import ConfigError
from headrace.views.functions import FUNCTIONS, OPERATORS
from tests.support.conditions import NO_VALUES, kept

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


LENIENT = {"coalesce", "ifnull", "if", "concat", "greatest", "least"}


VALUES = {
    "t": ("t", "'i'"),
    "n": ("n", "2"),
    "w": ("n", "1"),
    "x": ("t", "'i'"),
    "a": ("n", "2"),
    "b": ("b", "true"),
    "d": ("", "0"),
}


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


VARIED = {
    "t": ("string", ["abb", "b", "", "a%", None, "éb"]),
    "n": ("int", [49, -7, 3, 0, None, 2**31]),
    "x": ("float", [49.0, -0.5, 1e17, 0.3, None, 3.0]),
    "b": ("bool", [True, False, None, True, False, True]),
}
"""Columns for each kind of operand, in which the rows differ."""
CONSTANTS = {
    "t": ("string", "b", "'b'"),
    "n": ("int", 49, "49"),
    "x": ("float", 0.1, "0.1"),
    "b": ("bool", True, "true"),
}
OPERANDS = {"a": "nx", "b": "b", "d": "", "n": "xn", "t": "t", "w": "n", "x": "tx"}
"""The columns of `VARIED` that an operand may be, by its letter."""
SPELLED = {
    "not": "(not {})",
    "is null": "({} is null)",
    "between": "({} between {} and {})",
    "+x": "(+({}))",
    "-x": "(-({}))",
}


def spelled(name, operands):
    default = f"({{}} {name} {{}})" if name in OPERATORS else f"{name}({', '.join(['{}'] * len(operands))})"
    return SPELLED.get(name, default).format(*operands)


@pytest.mark.parametrize("name", sorted(FUNCTIONS | OPERATORS))
def test_a_literal_is_worth_what_a_column_of_its_value_is(name):
    takes = (FUNCTIONS | OPERATORS)[name].takes.rstrip("*").replace("D", "").lower()
    letters = takes + takes[-1] if name in {"coalesce", "concat", "greatest", "least"} else takes
    if name == "regexp_like":
        letters = "tt"
    columns = VARIED | {f"k{kind}": (of, [value] * 6) for kind, (of, value, _) in CONSTANTS.items()}
    pairs = []
    for kinds in product(*(OPERANDS[letter] for letter in letters)):
        for is_constant in product([False, True], repeat=len(kinds)):
            forms = (
                [form if constant else kind for kind, constant, form in zip(kinds, is_constant, written, strict=True)]
                for written in ([CONSTANTS[kind][2] for kind in kinds], [f"k{kind}" for kind in kinds])
            )
            pairs.append([spelled(name, form) for form in forms])
    checks = [f"coalesce({one} = {other}, {one} is null and {other} is null)" for one, other in pairs]
    assert kept(" and ".join(checks), **columns) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("n / 49 = 1 and floor(x / 49) = 1", [0]),
        ("x / 10 = 0.3", [1]),
        ("strpos('abc', t) = 2", [1]),
        ("replace('abc', 'b', t) = 'axc'", [2]),
        ("mod(x, 7.0) = 0 and x % 0.5 = 0", [0]),
        ("mod(1e17, x) = 1", [1]),
        ("5.0 % (1 / 0) = 5 and mod(-5, 1e400) = -5", [0, 1, 2]),
        ("log10(1000) = 3 and log10(x * 0 + 1e15) = 15 and log2(x * 0 + 536870912) = 29", [0, 1]),
        ("greatest(sqrt(-1), 1) > 5 and greatest(1, x, sqrt(-1)) > 100", [0, 1, 2]),
        ("greatest(x, 3.5) = 3.5", [1, 2]),
        ("least(sqrt(-1), x, 50) = x", [0, 1]),
    ],
)
def test_values_are_those_of_ieee_754_and_of_each_row(condition, rows):
    columns = {"n": ("int", [49, 3, 2]), "x": ("float", [49.0, 3.0, None]), "t": ("string", ["a", "b", "x"])}
    assert kept(condition, **columns) == rows


@pytest.mark.parametrize("name", ["read_csv", "read_parquet", "avg", "sum", "count", "row_number", "max", "select"])
def test_functions_of_files_and_of_many_rows_are_an_error(name):
    with pytest.raises(ConfigError, match=f"the function {name} is not allowed"):
        kept(f"{name}('x') > 3", x=("float", [1.0]))


@pytest.mark.parametrize(
    ("expression", "rows"),
    [("1 / -x", [1]), ("1 / +x", [0]), ("1 / - -x", [0]), ("1 / -(-x)", [0]), ("1 / (0 - x)", [0, 1])],
)
def test_a_sign_is_not_a_subtraction_from_zero(expression, rows):
    """The values are 0.0 and -0.0, so only the sign of zero decides."""
    assert kept(f"{expression} > 0", x=("float", [0.0, -0.0])) == rows
