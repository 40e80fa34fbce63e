"""Shared by test_column_table and the tests beside it."""

import math

from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable, keys_digest


def table(*columns, keys=("a", "b", "c"), digest="made from"):
    """A table of columns given as name, kind and values."""
    made = tuple(Column.of(ColumnSpec(name, ColumnKind(kind)), values) for name, kind, values in columns)
    return ColumnTable(made, len(keys), keys_digest(keys), digest)


CAPTIONS = table(
    ("caption", "string", ["leise", None, "große Trommel"]),
    ("snr", "float", [1.5, math.nan, -2.0]),
    ("tags", "json", [["a"], None, {"b": [1, None]}]),
)
