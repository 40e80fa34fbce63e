"""Finds one type for each column of a table that has several files.

A column of text files (CSV, TSV) has the type that all of its cells are written in, as if the files were one. Between
other files, numbers become floats if one file has floats, and objects have the names of all files.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, Protocol

import polars as pl

from headrace.catalog.tables.cell_types import type_of_column
from headrace.catalog.tables.delimited_files import DelimitedTable
from headrace.catalog.tables.json_kinds import check_columns, shown_place
from headrace.catalog.tables.json_lines import in_order
from headrace.errors import ConfigError

_WORDS: dict[type[pl.DataType], str] = {
    pl.Struct: "an object",
    pl.List: "a list",
    pl.Array: "a list",
    pl.String: "text",
    pl.Boolean: "true or false",
    pl.Date: "a date",
    pl.Datetime: "a date and time",
    pl.Time: "a time",
    pl.Duration: "a duration",
}


class TableOfFile(Protocol):
    """A table with a schema."""

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns; the type of a column without any value is null."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """The table of a file.

    Attributes:
        name: its name in error messages.
        table: the table.
    """

    name: str
    table: TableOfFile


def common_types(tables: Sequence[NamedTable], free: Collection[str]) -> dict[str, pl.DataType]:
    """The type of each column in all files, in the order in which columns first appear.

    Args:
        tables: the tables of the files.
        free: columns whose types are decided elsewhere; they are left as they are in their first file.

    Raises:
        ConfigError: the values of a column are of different kinds in two files, or files have too many of their own.
    """
    found: dict[str, pl.DataType] = {}
    columns = list(dict.fromkeys(chain.from_iterable(one.table.schema for one in tables)))
    check_columns(columns, sum(len(one.table.schema) for one in tables), len(tables), "the metadata tables")
    for column in columns:
        having = [one for one in tables if column in one.table.schema]
        filled = [one for one in having if one.table.schema[column] != pl.Null]
        decided = column in free or len({one.table.schema[column] for one in filled}) < 2
        found[column] = (filled or having)[0].table.schema[column] if decided else _common_type(column, filled)
    return found


def has_several_kinds(column: str, tables: Sequence[NamedTable]) -> bool:
    """Whether the values of a column, or the elements of its lists, are of different kinds in two files."""
    types = [one.table.schema[column] for one in tables if one.table.schema.get(column, pl.Null) != pl.Null]
    return len({(_kind(dtype), _kind(getattr(dtype, "inner", None) or dtype)) for dtype in types}) > 1


def _common_type(column: str, tables: Sequence[NamedTable]) -> pl.DataType:
    texts = [one.table for one in tables if isinstance(one.table, DelimitedTable) and column not in one.table.json]
    if len(texts) == len(tables):
        return type_of_column([cells for table in texts for cells in table.cells(column)])
    kinds = dict[tuple[str, ...], tuple[str, str]]()  # where a value is → its kind, and the first file that has it
    for one in tables:
        for place, kind in _kinds(one.table.schema[column], (column,)).items():
            before, first = kinds.setdefault(place, (kind, one.name))
            if before == kind:
                continue
            # Cells of text files can be read as text, whatever they are.
            if place == (column,) and "text" in {kind, before} and _only_texts_differ(column, tables):
                return pl.String()
            raise ConfigError(
                f"{one.name}: column {shown_place(place)} is {kind}, but {before} in {first}; write all of its values "
                "as one kind" + (", or declare its type (source.table.types)" if place == (column,) else "")
            )
    return in_order(reduce(_supertype, (one.table.schema[column] for one in tables)))


def _only_texts_differ(column: str, tables: Sequence[NamedTable]) -> bool:
    """Whether all values that are not text are cells of text files."""
    others = (one.table for one in tables if _kind(one.table.schema[column]) != "text")
    return all(isinstance(table, DelimitedTable) and column not in table.json for table in others)


def _supertype(one: pl.DataType, other: pl.DataType) -> pl.DataType:
    """The type of the values of two types, which have the same kinds. Objects have the names of both."""
    if pl.Null() in {one, other}:
        return other if one == pl.Null else one
    inner: Any = getattr(one, "inner", None)
    if inner is not None:
        return one if one == other else pl.List(_supertype(inner, other.inner))  # type: ignore[attr-defined]  # a list, too
    if isinstance(one, pl.Struct) and isinstance(other, pl.Struct):
        types: dict[str, Any] = {field.name: field.dtype for field in one.fields}
        for field in other.fields:
            types[field.name] = _supertype(types.get(field.name, pl.Null()), field.dtype)  # type: ignore[arg-type]  # as `inner`
        return pl.Struct(types)
    both = (one, other) if one == other else (_in_microseconds(one), _in_microseconds(other))
    frames = (pl.DataFrame(schema={"c": dtype}) for dtype in both)
    return pl.concat(frames, how="vertical_relaxed").schema["c"]


def _in_microseconds(dtype: Any) -> Any:  # noqa: ANN401 - a class or an instance
    """The unit in which times of several units lose nothing that tables keep."""
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", dtype.time_zone)
    return pl.Duration("us") if isinstance(dtype, pl.Duration) else dtype


def _kinds(dtype: Any, place: tuple[str, ...]) -> dict[tuple[str, ...], str]:  # noqa: ANN401 - a class or an instance
    """Kind of the values at each place in a column, as in `json_lines`; none where all are null."""
    if dtype == pl.Null:
        return {}
    found = {place: _kind(dtype)}
    for field in getattr(dtype, "fields", ()):
        found |= _kinds(field.dtype, (*place, field.name))
    return found | _kinds(getattr(dtype, "inner", pl.Null), (*place, "[]"))


def _kind(dtype: pl.DataType) -> str:
    """Kind of the values of a type, in words."""
    if dtype.is_numeric():
        return "a number"
    zone = getattr(dtype, "time_zone", None)
    return _WORDS.get(dtype.base_type(), str(dtype)) + (f" of {zone}" if zone else "")
