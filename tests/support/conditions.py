"""Shared by test_conditions and the tests beside it."""

from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.views.names import ColumnNames


def spec(name, kind="float", *, is_fact=False):
    return ColumnSpec(name, ColumnKind(kind), is_fact)


NAMES = ColumnNames({
    "metadata": [spec("speaker", "string"), spec("split", "int"), spec("split", "string", is_fact=True),
                 spec("duration_seconds", is_fact=True)],
    "captions": [spec("text", "string"), spec("lang", "string"), spec("speaker", "int"), spec("two words")],
    "quality": [spec("snr"), spec("lang", "string")],
})  # fmt: skip
