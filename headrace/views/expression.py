"""Evaluates the condition of a view on columns, by polars."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.beside.column_table import Column, ColumnKind
from headrace.views.functions import OPERATORS, function
from headrace.views.names import ColumnNames, MeantColumn
from headrace.views.sql import column_name, described
from headrace.views.syntax import Call, Literal, Name, Node, Scalar, names_in, parsed

_DTYPES = {
    ColumnKind.STRING: pl.String,
    ColumnKind.JSON: pl.String,
    ColumnKind.INTERVALS: pl.String,
    ColumnKind.INT: pl.Int64,
    ColumnKind.FLOAT: pl.Float64,
    ColumnKind.BOOL: pl.Boolean,
}
_CASTS = {
    "int": pl.Int64, "integer": pl.Int64, "bigint": pl.Int64, "float": pl.Float64, "double": pl.Float64,
    "text": pl.String, "varchar": pl.String, "boolean": pl.Boolean,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition whose names are known to be columns.

    Attributes:
        text: the condition, as the user wrote it.
        columns: the columns that it reads, each once.
        meant: name in the condition, by its parts → its number in `columns`.
        tree: the condition.
        what: the key that has it: `where`, or `times` for an expression that gives numbers.
    """

    text: str
    columns: tuple[MeantColumn, ...]
    meant: Mapping[tuple[str, ...], int]
    tree: Node
    what: str = "where"

    @classmethod
    def of(cls, text: str, names: ColumnNames, what: str = "where") -> "Condition":
        """Parse a condition, or for `what="times"` an expression that gives numbers.

        Raises:
            ConfigError: it is not a condition on the columns that there are; the message says what is wrong.
        """
        tree = parsed(text, what)
        meant = names.meant_by(names_in(text, what), described(text, what))
        columns = tuple(dict.fromkeys(meant.values()))
        made = cls(text, columns, {parts: columns.index(column) for parts, column in meant.items()}, tree, what)
        found = made._values([pl.Series([None], dtype=_DTYPES[column.spec.kind]) for column in columns], 1)
        if what == "times":
            if found.dtype not in {pl.Int64, pl.Float64, pl.Null}:
                raise ConfigError(f"{described(text, what)}: gives {found.dtype}: write an expression of numbers")
        elif found.dtype not in {pl.Boolean, pl.Null}:
            raise ConfigError(f"{described(text)}: gives {found.dtype}, not true or false: write a condition")
        return made

    def mask(self, columns: Sequence[Column | Sequence[Column]], num_rows: int) -> NDArray[np.bool_]:
        """Whether each row fulfils the condition, bool (num_rows,); null counts as false.

        Args:
            columns: the values of `self.columns`, each in one piece or several.
            num_rows: number of rows.

        Raises:
            ConfigError: the condition cannot be evaluated on these values.
        """
        found = self._values([series(column) for column in columns], num_rows)
        return found.cast(pl.Boolean).fill_null(value=False).to_numpy()

    def numbers(self, columns: Sequence[pl.Series], num_rows: int) -> NDArray[np.float64]:
        """The value for each row, float64 (num_rows,); NaN for null. Errors as for `mask`."""
        found = self._values(columns, num_rows)
        return found.cast(pl.Float64).fill_null(float("nan")).to_numpy()

    def _values(self, columns: Sequence[pl.Series], num_rows: int) -> pl.Series:
        evaluation = _Evaluation({parts: columns[number] for parts, number in self.meant.items()}, num_rows)
        try:
            return evaluation.values(self.tree)
        except ConfigError as error:
            raise ConfigError(f"{described(self.text, self.what)}: {error}") from error
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise ConfigError(f"{described(self.text, self.what)}: {_reason(error)}") from error


@dataclass(frozen=True, slots=True)
class _Value:
    """The values of a part of a condition.

    Attributes:
        name: the column's name; `operand 1` and so on for what is computed or written in the condition.
        content: a series, or a single value that is written in the condition.
    """

    name: str
    content: pl.Series | Scalar

    @property
    def is_series(self) -> bool:
        """Whether it has a value for each row."""
        return isinstance(self.content, pl.Series)

    @property
    def series(self) -> pl.Series:
        """Its values, of which there is one if it is not a series."""
        return self.content if isinstance(self.content, pl.Series) else pl.Series([self.content])

    @property
    def dtype(self) -> pl.DataType:
        """Null, Boolean, Int64, Float64 or String."""
        return self.series.dtype

    @property
    def expression(self) -> pl.Expr:
        """Its values, in a frame that has them under its name."""
        return pl.col(self.name)

    @property
    def literal(self) -> object:
        """The value that is written in the condition; None for a series."""
        return None if isinstance(self.content, pl.Series) else self.content


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Evaluates a tree call by call: the time of polars grows with the square of an expression's depth, or faster."""

    columns: Mapping[tuple[str, ...], pl.Series]
    num_rows: int

    def values(self, tree: Node) -> pl.Series:
        """A value for each row."""
        found = self._value(tree, 1)
        return self._selected(found.expression, [found])

    def _value(self, node: Node, place: int) -> _Value:
        if isinstance(node, Name):
            return _Value(column_name(*node.parts), self.columns[node.parts])
        return _Value(f"operand {place}", node.value if isinstance(node, Literal) else self._computed(node))

    def _computed(self, call: Call) -> pl.Series:
        first, *others = call.operands
        match call.function:
            case "and" | "or" | "greatest" as word:
                return reduce(partial(self._called, word), others, self.values(first))
            case "case":
                branches = zip(call.operands[-3::-2], call.operands[-2::-2], strict=True)
                return reduce(lambda rest, branch: self._called("if", *branch, rest), branches, self.values(others[-1]))
            case "in":
                items = [item.value for item in others if isinstance(item, Literal)]
                if len(items) == len(others):
                    return self._listed(self._value(first, 1), items)
                return reduce(partial(self._called, "or"), (self._called("=", first, item) for item in others))
            case "cast":
                value, wanted = self._value(first, 1), str(self._value(others[0], 2).literal)
                return self._selected(value.expression.cast(_CASTS[wanted]), [value])
        return self._called(call.function, *call.operands)

    def _called(self, name: str, *operands: Node | pl.Series) -> pl.Series:
        """The values of a function or an operator, whose operands may be computed already."""
        given = [
            _Value(f"operand {place}", operand) if isinstance(operand, pl.Series) else self._value(operand, place)
            for place, operand in enumerate(operands, 1)
        ]
        called, shown = OPERATORS.get(name) or function(name), {"+x": "+", "-x": "-"}.get(name, name.upper())
        if (
            called.is_direct
            and any(value.is_series for value in given)
            and all(value.dtype != pl.Null for value in given)
        ):
            called.letters(shown, given)
            found: pl.Series = called.values(*(value.series for value in given))  # ten times as fast as a frame
            return found
        return self._selected(called.of(shown, given), given)

    def _listed(self, value: _Value, listed: Sequence[Scalar]) -> pl.Series:
        """Whether a value is in a list; null if it is not, and null is in the list."""
        items = [item for item in listed if item is not None]
        if len({isinstance(item, str) for item in items}) > 1:
            raise ConfigError("the list of IN has texts and numbers")
        found: list[pl.Expr] = [pl.lit(None, pl.Boolean)]  # whether it equals one of them, for each type of items
        for kind in dict.fromkeys(map(type, items)):
            given = pl.Series([item for item in items if type(item) is kind])
            OPERATORS["="].letters("IN", [value, _Value("operand 2", given)])
            types = {value.dtype, given.dtype}
            target = next((dtype for dtype in (pl.String, pl.Float64, pl.Int64) if dtype in types), pl.Boolean)
            found.append(value.expression.cast(target).is_in(pl.lit(given.cast(target)).implode()))
        is_in = pl.any_horizontal(found if len(items) < len(listed) else found[1:])
        return self._selected(is_in, [value])

    def _selected(self, expression: pl.Expr, operands: Sequence[_Value]) -> pl.Series:
        """The values of an expression over operands, as one of the types that conditions know."""
        # A literal is repeated: beside a single value, polars divides less exactly, and functions of texts see one row.
        given = {o.name: o.series if o.is_series else o.series.new_from_index(0, self.num_rows) for o in operands}
        frame = pl.DataFrame({"": np.zeros(self.num_rows, np.int8)} | given)
        found = frame.with_columns(expression.alias("")).get_column("")
        return found.cast(pl.Int64) if found.dtype.is_integer() else found


def series(column: Column | Sequence[Column]) -> pl.Series:
    """The values of a column, in one piece or several, as a polars Series."""
    if not isinstance(column, Column):
        return pl.concat([series(piece) for piece in column])
    dtype = _DTYPES[column.spec.kind]
    if column.spec.kind.is_text:
        column = column.as_text()
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


def _reason(error: BaseException) -> str:
    """The first line of a message of polars, in the words of a condition."""
    first = str(error).strip().partition("\n")[0]
    if "`i128` to `i64`" in first:
        return "a whole number has more than 64 bits; compute with CAST(… AS DOUBLE) instead"
    return re.sub(r"in column '([^']*)'", r"in column \1", first)
