"""Finds out whether a user's schema looks at single values only, so that a table may be checked piece by piece."""

from typing import Any

import pandera.polars as pa
from pandera.api.function_dispatch import Dispatcher

_OF_SINGLE_VALUES = frozenset(
    {
        "equal_to",
        "greater_than",
        "greater_than_or_equal_to",
        "in_range",
        "isin",
        "less_than",
        "less_than_or_equal_to",
        "not_equal_to",
        "notin",
        "str_contains",
        "str_endswith",
        "str_length",
        "str_matches",
        "str_startswith",
    }
)
"""Checks of pandera that a column passes if each of its values does."""


def is_of_single_values(schema: pa.DataFrameSchema) -> bool:
    """Whether a table passes if each of its rows does. False if that is not certain, as with a user's own function."""
    return (
        type(schema) is pa.DataFrameSchema
        and not (schema.checks or schema.parsers or schema.unique or schema.drop_invalid_rows)
        and all(map(_is_column_of_values, schema.columns.values()))
    )


def _is_column_of_values(column: Any) -> bool:  # noqa: ANN401 - a subclass may be anything
    return (
        type(column) is pa.Column
        and not (column.parsers or column.unique or column.drop_invalid_rows)
        and all(map(_is_check_of_values, column.checks))
    )


def _is_check_of_values(check: Any) -> bool:  # noqa: ANN401 - likewise
    is_own = isinstance(check._check_fn, Dispatcher) and check.name in _OF_SINGLE_VALUES  # noqa: SLF001 - not public
    return (is_own or check.element_wise) and check.groupby is None and not check.raise_warning
