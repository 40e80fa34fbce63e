"""Evaluates the condition of a view on columns, by polars."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.beside.column_table import Column, ColumnKind
from headrace.views.names import ColumnNames, MeantColumn
from headrace.views.sql import balanced, tokens_of

_DTYPES = {
    ColumnKind.STRING: pl.String,
    ColumnKind.JSON: pl.String,
    ColumnKind.INT: pl.Int64,
    ColumnKind.FLOAT: pl.Float64,
    ColumnKind.BOOL: pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition whose names are known to be columns.

    Attributes:
        text: the condition, as the user wrote it.
        columns: the columns that it reads; in the frames of `mask` they are called `c0`, `c1`, ….
        expression: the condition over these.
    """

    text: str
    columns: tuple[MeantColumn, ...]
    expression: pl.Expr

    @classmethod
    def of(cls, text: str, names: ColumnNames) -> "Condition":
        """Parse a condition.

        Raises:
            ConfigError: it is not a condition on the columns that there are; the message says what is wrong.
        """
        what = f"where {text!r}"
        tokens = tokens_of(text)
        meant = names.meant_by(tokens, what)
        columns = list(dict.fromkeys(meant.values()))
        words = [f'"c{columns.index(meant[token])}"' if token in meant else token.text for token in tokens]
        try:
            expression = pl.sql_expr(balanced(words))
            schema = {f"c{number}": _DTYPES[column.spec.kind] for number, column in enumerate(columns)}
            frame = pl.DataFrame({"row": [0]}).with_columns(pl.lit(None, dtype).alias(c) for c, dtype in schema.items())
            found = frame.select(expression.alias("found"))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _fault(what, error, columns) from error
        if found.schema["found"] not in {pl.Boolean, pl.Null}:
            raise ConfigError(f"{what}: gives {found.schema['found']}, not true or false: write a condition")
        return cls(text, tuple(columns), expression)

    def mask(self, columns: Sequence[Column | Sequence[Column]], num_rows: int) -> NDArray[np.bool_]:
        """Whether each row fulfils the condition, bool (num_rows,); null counts as false.

        Args:
            columns: the values of `self.columns`, each in one piece or several.
            num_rows: number of rows.

        Raises:
            ConfigError: the condition cannot be evaluated on these values.
        """
        frame = pl.DataFrame({f"c{number}": series(found) for number, found in enumerate(columns)})
        frame = frame if columns else pl.DataFrame({"row": np.zeros(num_rows, np.int8)})
        try:
            found = frame.select(self.expression.cast(pl.Boolean).fill_null(value=False).alias("found"))["found"]
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _fault(f"where {self.text!r}", error, self.columns) from error
        mask = found.to_numpy()
        return np.asarray(np.broadcast_to(mask, num_rows))


def series(column: Column | Sequence[Column]) -> pl.Series:
    """The values of a column, in one piece or several, as a polars Series."""
    if not isinstance(column, Column):
        return pl.concat([series(piece) for piece in column])
    dtype = _DTYPES[column.spec.kind]
    if column.spec.kind.is_text:
        blob = column.values.tobytes()
        bounds = pairwise(column.offsets.tolist())
        texts = [blob[start:stop].decode() for start, stop in bounds]
        if column.num_nulls:
            texts_or_none = [text if valid else None for text, valid in zip(texts, column.is_valid, strict=True)]
            return pl.Series(texts_or_none, dtype=dtype)
        return pl.Series(texts, dtype=dtype)
    values: Any = column.values.astype(np.bool_) if column.spec.kind is ColumnKind.BOOL else column.values
    found = pl.Series(values, dtype=dtype)
    if not column.num_nulls:
        return found
    valid = pl.Series(column.is_valid)
    return pl.select(pl.when(valid).then(found).otherwise(None)).to_series()


def _fault(what: str, error: BaseException, columns: Sequence[MeantColumn]) -> ConfigError:
    """What polars says, with the user's names of columns."""
    first = str(error).strip().partition("\n")[0]
    for number, column in enumerate(columns):
        for quote in "'\"":
            first = first.replace(f"{quote}c{number}{quote}", column.spec.name)
    return ConfigError(f"{what}: {first}")
