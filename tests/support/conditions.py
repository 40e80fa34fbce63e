"""Shared by test_conditions and the tests beside it."""

from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec
from headrace.views.expression import Condition
from headrace.views.names import ColumnNames


def spec(name, kind="float", *, is_fact=False):
    return ColumnSpec(name, ColumnKind(kind), is_fact)


NAMES = ColumnNames({
    "metadata": [spec("speaker", "string"), spec("split", "int"), spec("split", "string", is_fact=True),
                 spec("duration_seconds", is_fact=True)],
    "captions": [spec("text", "string"), spec("lang", "string"), spec("speaker", "int"), spec("two words")],
    "quality": [spec("snr"), spec("lang", "string")],
})  # fmt: skip


def kept(condition, **columns):
    """Rows that fulfil a condition; columns are given as kind and values, of one set."""
    specs = {name: spec(name, kind) for name, (kind, _) in columns.items()}
    made = {name: Column.of(specs[name], values) for name, (_, values) in columns.items()}
    found = Condition.of(condition, ColumnNames({"metadata": list(specs.values())}))
    num_rows = len(next(iter(made.values())))
    mask = found.mask([made[column.spec.name] for column in found.columns], num_rows)
    assert mask.shape == (num_rows,)
    return mask.nonzero()[0].tolist()


TYPES = {"x": "float", "n": "int", "t": "string", "b": "bool"}


NO_VALUES = {name: (kind, [None]) for name, kind in TYPES.items()}
