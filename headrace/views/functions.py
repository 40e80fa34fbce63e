"""The functions and operators of conditions: what they take, and their values, by polars.

Null in any operand gives null, except for `FUNCTIONS` that say otherwise. Whole numbers are computed in 128 bits where
64 can be too few, and a result that does not fit in 64 is an error: nothing wraps around.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from operator import add, and_, eq, ge, gt, invert, le, lt, mul, ne, or_, sub, truediv
from typing import Any, Protocol

import numpy as np
import polars as pl

from headrace.errors import ConfigError

_TAKES = {
    "a": "a value of the same type",
    "b": "a condition",
    "d": "a whole number from 0 on, as a literal",
    "n": "a number",
    "t": "a text",
    "w": "a whole number",
    "x": "a value",
}
_TYPES: dict[str, set[type[pl.DataType]]] = {
    "b": {pl.Boolean},
    "n": {pl.Int64, pl.Float64, pl.Boolean},
    "t": {pl.String},
    "w": {pl.Int64},
}


class Operand(Protocol):
    """An operand that has a value for each row."""

    @property
    def dtype(self) -> pl.DataType:
        """Null, Boolean, Int64, Float64 or String."""

    @property
    def expression(self) -> pl.Expr:
        """Its values."""

    @property
    def literal(self) -> object:
        """The value that is written in the condition; None for others."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function or an operator.

    Attributes:
        takes: a letter of `_TAKES` for each operand, in capitals for one that may be left out; `*` repeats the last.
        values: makes its values from those of its operands (an operand of `d` is an int).
        whole: the type in which whole numbers are computed. In `pl.Int128` the result becomes 64 bits again, or fails.
        sees_null: null operands are its own matter.
        is_direct: `values` works on series as well, gives null for null by itself, and needs no casts.
    """

    takes: str
    values: Callable[..., Any]
    whole: type[pl.DataType] = pl.Int64
    sees_null: bool = False
    is_direct: bool = False

    def of(self, name: str, operands: Sequence[Operand]) -> pl.Expr:
        """Its values for operands.

        Raises:
            ConfigError: it does not take these operands.
        """
        letters = self.letters(name, operands)
        types = {operand.dtype for operand in operands}
        if pl.Null in types and not self.sees_null:
            return pl.lit(None)
        number: type[pl.DataType] = pl.Float64 if pl.Float64 in types else self.whole
        casts: dict[str, type[pl.DataType]] = {"b": pl.Boolean, "n": number}
        given: list[Any] = [
            operand.literal
            if letter == "d"
            else operand.expression.cast(casts[letter])
            if letter in casts
            else operand.expression
            for letter, operand in zip(letters, operands, strict=True)
        ]
        found: pl.Expr = self.values(*given)
        if number == pl.Int128:
            found = found.cast(pl.Int64)
        if self.sees_null:
            return found
        return pl.when(pl.all_horizontal(operand.expression.is_not_null() for operand in operands)).then(found)

    def letters(self, name: str, operands: Sequence[Operand]) -> str:
        """The letter of each operand.

        Raises:
            ConfigError: it does not take these operands.
        """
        letters = self.takes.rstrip("*").lower()
        required = sum(letter.islower() for letter in self.takes.rstrip("*"))
        if self.takes.endswith("*"):
            letters += letters[-1] * (len(operands) - len(letters))
        if not required <= len(operands) <= len(letters):
            raise ConfigError(f"{name} takes {self._described()}; found {len(operands)} operands")
        for number, (letter, operand) in enumerate(zip(letters, operands, strict=False), 1):
            if not _fits(letter, operand):
                raise ConfigError(f"{name} takes {self._described()}; operand {number} is {operand.dtype}")
        alike = {
            o.dtype == pl.String for a, o in zip(letters, operands, strict=False) if a == "a" and o.dtype != pl.Null
        }
        if len(alike) > 1:
            raise ConfigError(
                f"{name} takes values of one type, and these are texts and numbers; write CAST(… AS TEXT)"
            )
        return letters[: len(operands)]

    def _described(self) -> str:
        words = [
            _TAKES[letter.lower()] + (", if wanted" if letter.isupper() else "") for letter in self.takes.rstrip("*")
        ]
        return "; ".join(words) + ("; and more of these" if self.takes.endswith("*") else "")


def _fits(letter: str, operand: Operand) -> bool:
    if letter == "d":
        return operand.dtype == pl.Null or (isinstance(operand.literal, int) and operand.literal >= 0)
    return letter not in _TYPES or operand.dtype in {*_TYPES[letter], pl.Null}


def function(name: str) -> Function:
    """The function of a name that a user wrote.

    Raises:
        ConfigError: conditions have no such function; the message lists similar ones.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    close = get_close_matches(name, FUNCTIONS, 3)
    meant = f"; did you mean {', '.join(close)}?" if close else ""
    raise ConfigError(
        f"the function {name} is not allowed: a condition is about one sample at a time and may use "
        f"{', '.join(sorted(FUNCTIONS))} and CAST{meant}"
    )


def _remainder(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """The remainder with the sign of `left`, as in SQL; that of floats is exact, which polars' own is not."""
    return pl.map_batches([left, right], _remainders)


def _remainders(given: Sequence[pl.Series]) -> pl.Series:
    left, right = given
    return _by_numpy(np.fmod, given) if left.dtype == pl.Float64 else left.abs() % right.abs() * left.sign()


def _logarithm(logarithm: np.ufunc) -> Callable[[pl.Expr], pl.Expr]:
    """A logarithm by numpy: polars divides two logarithms, so that log10(1000) would not be 3."""
    return lambda value: pl.map_batches([value], partial(_by_numpy, logarithm))


def _by_numpy(values: np.ufunc, given: Sequence[pl.Series]) -> pl.Series:
    with np.errstate(all="ignore"):
        return pl.Series(values(*(one.to_numpy() for one in given)))


def _like(start: str) -> Callable[[pl.Expr, pl.Expr], pl.Expr]:
    def matches(text: pl.Expr, pattern: pl.Expr) -> pl.Expr:
        rule = (
            pattern.str.escape_regex().str.replace_all("%", ".*", literal=True).str.replace_all("_", ".", literal=True)
        )
        return text.str.contains(pl.concat_str(pl.lit(start), rule, pl.lit("$")))

    return matches


def _matches(text: pl.Expr, pattern: pl.Expr, flags: pl.Expr | None = None) -> pl.Expr:
    start = [] if flags is None else [pl.lit("(?"), flags, pl.lit(")")]
    return text.str.contains(pl.concat_str(*start, pattern))


def _replaced(text: pl.Expr, old: pl.Expr, new: pl.Expr) -> pl.Expr:
    return pl.when(old == "").then(text).otherwise(text.str.split(old).list.join(new))


def _position(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    """Number of the first character of a part, from 1; 0 if the text does not contain it."""
    before = text.str.splitn(part, 2).struct.field("field_0").str.len_chars().cast(pl.Int64)
    is_found = text.str.contains(part, literal=True)
    return pl.when(part == "").then(1).when(is_found).then(before + 1).otherwise(0)


def _substring(text: pl.Expr, start: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    """Characters from number `start` on, where the first is 1; numbers below 1 are places before the text."""
    first = (start - 1).clip(0)
    if length is None:
        return text.str.slice(first)
    return text.str.slice(first, (start - 1 + length - first).clip(0))


def _joined(*values: pl.Expr) -> pl.Expr:
    return pl.concat_str([value.cast(pl.String) for value in values], ignore_nulls=True)


def _chosen(condition: pl.Expr, value: pl.Expr, otherwise: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(value).otherwise(otherwise)


def _greatest(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    """The larger of two values: NaN, which polars' own leaves out; null only if both are null."""
    return pl.when((one < other).fill_null(one.is_null())).then(other).otherwise(one)


def _between(value: pl.Expr, low: pl.Expr, high: pl.Expr) -> pl.Expr:
    return (low <= value).cast(pl.Boolean) & (value <= high).cast(pl.Boolean)


OPERATORS = {
    "or": Function("bb", or_, sees_null=True, is_direct=True),
    "and": Function("bb", and_, sees_null=True, is_direct=True),
    "not": Function("b", invert, is_direct=True),
    "is null": Function("x", lambda value: value.is_null(), sees_null=True, is_direct=True),
    "between": Function("aaa", _between, sees_null=True, is_direct=True),
    "like": Function("tt", _like("(?s)^")),
    "ilike": Function("tt", _like("(?is)^")),
    "=": Function("aa", eq, is_direct=True),
    "<>": Function("aa", ne, is_direct=True),
    "<": Function("aa", lt, is_direct=True),
    "<=": Function("aa", le, is_direct=True),
    ">": Function("aa", gt, is_direct=True),
    ">=": Function("aa", ge, is_direct=True),
    "||": Function("xx", _joined),
    "+": Function("nn", add, pl.Int128),
    "-": Function("nn", sub, pl.Int128),
    "+x": Function("n", lambda value: value, pl.Int128),
    "-x": Function("n", lambda value: value * -1, pl.Int128),  # `0 - x` loses the sign of zero
    "*": Function("nn", mul, pl.Int128),
    "/": Function("nn", truediv, pl.Float64),
    "%": Function("nn", _remainder, pl.Int128),
}  # fmt: skip
"""Values of `Call.function` besides the names of functions, `in` and `cast`."""

FUNCTIONS = {
    "abs": Function("n", lambda value: value.abs(), pl.Int128),
    "ceil": Function("n", lambda value: value.ceil()),
    "ceiling": Function("n", lambda value: value.ceil()),
    "coalesce": Function("a*", pl.coalesce, sees_null=True),
    "concat": Function("x*", _joined, sees_null=True),
    "ends_with": Function("tt", lambda text, end: text.str.ends_with(end)),
    "exp": Function("n", lambda value: value.exp(), pl.Float64),
    "floor": Function("n", lambda value: value.floor()),
    "greatest": Function("a*", _greatest, sees_null=True),
    "if": Function("baa", _chosen, sees_null=True),
    "ifnull": Function("aa", pl.coalesce, sees_null=True),
    "least": Function("a*", pl.min_horizontal, sees_null=True),
    "left": Function("tw", lambda text, number: text.str.head(number)),
    "length": Function("t", lambda text: text.str.len_chars()),
    "ln": Function("n", lambda value: value.log(), pl.Float64),
    "log10": Function("n", _logarithm(np.log10), pl.Float64),
    "log2": Function("n", _logarithm(np.log2), pl.Float64),
    "lower": Function("t", lambda text: text.str.to_lowercase()),
    "ltrim": Function("tT", lambda text, characters=None: text.str.strip_chars_start(characters)),
    "mod": Function("nn", _remainder, pl.Int128),
    "nullif": Function("aa", lambda value, other: pl.when(value != other).then(value)),
    "pow": Function("nn", lambda base, exponent: base.pow(exponent), pl.Float64),
    "power": Function("nn", lambda base, exponent: base.pow(exponent), pl.Float64),
    "regexp_like": Function("ttT", _matches),
    "replace": Function("ttt", _replaced),
    "right": Function("tw", lambda text, number: text.str.tail(number)),
    "round": Function("nD", lambda value, digits=0: value.round(digits)),
    "rtrim": Function("tT", lambda text, characters=None: text.str.strip_chars_end(characters)),
    "sign": Function("n", lambda value: value.sign()),
    "sqrt": Function("n", lambda value: value.sqrt(), pl.Float64),
    "starts_with": Function("tt", lambda text, start: text.str.starts_with(start)),
    "strpos": Function("tt", _position),
    "substr": Function("twW", _substring),
    "upper": Function("t", lambda text: text.str.to_uppercase()),
}
"""Functions of one row that a condition may call, by name."""
