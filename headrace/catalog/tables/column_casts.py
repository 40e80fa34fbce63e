"""Gives columns other types where a plain cast of polars would lose values, or fail. Pure.

polars matches the names of objects by their places, has no text of lists, and writes dates unlike JSON.
"""

from typing import Any

import polars as pl

from headrace.format.typed_json import json_of


def castable(value: pl.Expr, dtype: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    """The values of an expression in a form that polars casts to the wanted type as they are.

    Names that an object lacks are null. Lists become text as JSON, dates and times as in JSON (ISO 8601), durations as
    their seconds.

    Args:
        value: the values.
        dtype: their type.
        wanted: a type whose values are of the same kind, or text.
    """
    if dtype in {wanted, pl.Null()}:
        return value
    if isinstance(dtype, pl.Struct) and isinstance(wanted, pl.Struct):
        types: dict[str, Any] = {one.name: one.dtype for one in dtype.fields}
        names = (_of_object(value, one, types.get(one.name)) for one in wanted.fields)
        return pl.when(value.is_not_null()).then(pl.struct(*names))
    inner: Any = getattr(dtype, "inner", None)
    if inner is not None and isinstance(wanted, pl.List):
        lists = value.arr.to_list() if isinstance(dtype, pl.Array) else value
        return lists.list.eval(castable(pl.element(), inner, wanted.inner))  # type: ignore[arg-type]  # a class or an instance
    if wanted != pl.String:
        return value
    if isinstance(dtype, pl.List):
        sign = '"{}"' if inner == pl.String else "{}"
        elements = value.list.eval(pl.format(sign, pl.element()).fill_null("null")).list.join(", ")
        return pl.format("[{}]", elements)
    return value.map_batches(_as_texts, pl.String()) if dtype.is_temporal() else value


def with_plain_texts(dtype: pl.DataType) -> pl.DataType:
    """The type with text in place of the numbered texts of a dictionary (pandas writes categories so)."""
    if isinstance(dtype, pl.List):
        return pl.List(with_plain_texts(dtype.inner))  # type: ignore[arg-type]  # polars declares a class or an instance
    if isinstance(dtype, pl.Array):
        return pl.Array(with_plain_texts(dtype.inner), dtype.size)  # type: ignore[arg-type]  # as above
    if isinstance(dtype, pl.Struct):
        return pl.Struct({one.name: with_plain_texts(one.dtype) for one in dtype.fields})  # type: ignore[arg-type]  # as above
    return pl.String() if dtype.base_type() in {pl.Categorical, pl.Enum} else dtype


def _of_object(value: pl.Expr, wanted: pl.Field, dtype: pl.DataType | None) -> pl.Expr:
    """The values of a name of objects, which are null if its type is None."""
    there = pl.lit(None) if dtype is None else castable(value.struct.field(wanted.name), dtype, wanted.dtype)  # type: ignore[arg-type]  # as above
    return there.cast(wanted.dtype).alias(wanted.name)


def _as_texts(values: pl.Series) -> pl.Series:
    """Dates, times or durations as text; null stays."""
    texts = (None if value is None else str(json_of(value)) for value in values)
    return pl.Series(values.name, list(texts), dtype=pl.String)
