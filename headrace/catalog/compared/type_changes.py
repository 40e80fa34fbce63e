"""Compares the types of the user's columns with those of the scan before: another type writes every JSON again."""

import io
from collections.abc import Mapping

import polars as pl

from headrace.catalog.rows.metadata_columns import user_name
from headrace.catalog.rows.schemas import OWN_COLUMNS
from headrace.catalog.stored.parts import StoredCatalog
from headrace.catalog.tables.declared_types import is_intervals
from headrace.errors import NotFoundError

_WORDS = {pl.String: "text", pl.Float64: "float", pl.Boolean: "bool", pl.List: "list", pl.Struct: "object"}
_WAY_OUT = "declare it in `types` of the table (source.table), and a cell that does not fit is an error with its line"


def column_types(catalog: StoredCatalog | None) -> dict[str, str]:
    """Name of each of the user's columns of a catalog → its type in a word.

    Empty without a catalog, without recordings, and for a damaged part, which the next scan writes again.
    """
    entries = () if catalog is None else catalog.header.partitions.values()
    part = next((entry.rows for entry in entries if entry.rows is not None), None)
    if catalog is None or part is None:
        return {}
    try:  # all parts have the same columns
        schema = pl.read_parquet_schema(io.BytesIO(catalog.output.read(part.path)))
    except (NotFoundError, pl.exceptions.PolarsError, OSError):
        return {}
    return {user_name(name): type_word(dtype) for name, dtype in schema.items() if name not in OWN_COLUMNS}


def type_changes(before: Mapping[str, str], after: Mapping[str, str], table: str) -> list[str]:
    """One line for each column of a table that has another type than before, in the order of the columns."""
    return [
        f"{table}: column {name!r} was {before[name]} and is {word} now; {_WAY_OUT}"
        for name, word in after.items()
        if before.get(name, word) != word
    ]


def type_word(dtype: pl.DataType) -> str:
    """A column's type in a word, as in `types` where there is one."""
    if is_intervals(dtype):
        return "intervals"
    return "int" if dtype.is_integer() else _WORDS.get(dtype.base_type(), str(dtype))
