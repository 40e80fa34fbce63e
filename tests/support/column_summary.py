"""Shared by test_column_summary and the tests beside it."""

from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable


def shard(**columns):
    """The columns of one shard, given as name=(kind, values)."""
    made = tuple(Column.of(ColumnSpec(name, ColumnKind(kind)), values) for name, (kind, values) in columns.items())
    return ColumnTable(made, len(made[0]), "keys", "input")
