"""Tests of `headrace.catalog.tables.cell_types`."""

import itertools
import json
import re

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.catalog.tables.cell_types import converted, type_of_column, typed

NUMBERS_AND_WORDS = ["", " ", "1", "-2", " 3 ", "007", "2.5", ".5", "1e3", "nan", "-inf", "true", "False", "x"]


LISTS = [
    "[]",
    "[1, 2]",
    "[0.5, null]",
    '["a"]',
    "[[1], []]",
    "[true]",
    "[NaN]",
    "[1, 'a']",
    '["\\ud800"]',
    "[{}]",
    "[x]",
]


CELLS = st.sampled_from(
    [*NUMBERS_AND_WORDS, *LISTS, "9223372036854775807", "9223372036854775808", "[[0.5]]", '[["b"]]']
)


COLUMNS = st.one_of(
    st.lists(CELLS, max_size=6),
    st.lists(st.sampled_from(["1", "2", "", "9223372036854775808", "0.5"]), max_size=6),
    st.lists(st.sampled_from(["[1]", "[]", "", "[0.5]", "[NaN]", "[[1]]", "[true]"]), max_size=6),
)


def oracle_type(cells):  # noqa: PLR0911 - one for each type
    """The type of a column, from all of its cells at once and with Python alone."""
    bare = [cell.strip() for cell in cells if cell]
    if not bare:
        return pl.String()
    if all(re.fullmatch(r"-?(0|[1-9][0-9]*)", cell) for cell in bare):
        return pl.Int64() if all(-(2**63) <= int(cell) < 2**63 for cell in bare) else pl.String()
    number = r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:[+-]?(nan|inf|infinity))"
    if all(re.fullmatch(number, cell) for cell in bare):
        return pl.Float64()
    if all(cell.lower() in {"true", "false"} for cell in bare):
        return pl.Boolean()
    try:
        lists = [json.loads(cell) if cell.startswith("[") else None for cell in bare]
        if "NaN" in "".join(bare) or None in lists:
            return pl.String()
        inner = oracle_element(lists)
    except ValueError:
        return pl.String()
    return pl.String() if inner is None else pl.List(inner)


def oracle_element(lists):
    elements = [element for element in itertools.chain(*lists) if element is not None]
    kinds = {type(element) for element in elements}
    if kinds == {list}:
        inner = oracle_element(elements)
        return inner and pl.List(inner)
    if kinds == {int}:
        return pl.Int64() if all(-(2**63) <= element < 2**63 for element in elements) else None
    if kinds and kinds <= {int, float}:
        return pl.Float64()
    if kinds == {str}:
        "".join(elements).encode()
    return {(): pl.String(), (str,): pl.String(), (bool,): pl.Boolean()}.get(tuple(kinds))


@pytest.mark.medium
@settings(deadline=None, max_examples=60)
@example(["9223372036854775808", "1"], [1])
@example(["1", "0.5", "1"], [1, 2])
@example(["[NaN]", "[1]"], [1])
@example(["[x]", "[1]"], [1])
@example(["[1]", "", "[[1]]"], [1])
@example(["[99999999999999999999]", "[1]"], [1])
@given(cells=COLUMNS, cuts=st.lists(st.integers(0, 6), max_size=3))
def test_the_type_of_a_column_does_not_depend_on_its_pieces(cells, cuts):
    edges = [0, *sorted(min(cut, len(cells)) for cut in cuts), len(cells)]
    pieces = [pl.Series("c", cells[start:stop], dtype=pl.String) for start, stop in itertools.pairwise(edges)]
    dtype = type_of_column(pieces)
    assert dtype == oracle_type(cells)
    whole = typed(pl.Series("c", cells, dtype=pl.String))
    assert whole.dtype == dtype
    assert pl.concat([converted(piece, dtype) for piece in pieces]).equals(whole)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "-2", ""], [1, -2, None]),
        (["007", "12"], ["007", "12"]),
        (["+49 30", "1"], ["+49 30", "1"]),
        (["1", "2.5e3"], [1.0, 2500.0]),
        (["1", "x"], ["1", "x"]),
        (["9223372036854775807", "-1"], [9223372036854775807, -1]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["True", "false"], [True, False]),
        (["[1, 2]", "[]", ""], [[1, 2], [], None]),
        (["[1]", "[0.5, null]"], [[1.0], [0.5, None]]),
        (['["a", "b"]'], [["a", "b"]]),
        (["[[1, 2], []]"], [[[1, 2], []]]),
        (["[1]", "[true]"], ["[1]", "[true]"]),
        (["[1, 'a']", "[1]"], ["[1, 'a']", "[1]"]),
        (["[99999999999999999999]"], ["[99999999999999999999]"]),
        (["[]", ""], [[], None]),
        (["", ""], [None, None]),
        (["2024-05-01"], ["2024-05-01"]),
    ],
)
def test_cells_are_typed_by_fixed_rules(cells, values):
    column = typed(pl.Series("c", cells))
    assert column.to_list() == values
    assert [type(value) for value in column] == [type(value) for value in pl.Series(values)]
