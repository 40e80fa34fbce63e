"""Numbers of labels: the values of a column of text, whose numbers stay when values are added.

`source.labels` names the columns. The manifest of a partition of columns lists its values. The snapshot of the set
lists those of all partitions, in the order in which snapshots got them: the place of a value is its number, and the
next snapshot appends to the list.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.errors import ConfigError, FormatError
from headrace.format.beside.column_table import ColumnKind, ColumnTable
from headrace.format.snapshots.snapshots import Snapshot
from headrace.format.typed_json import typed

LABELS_KEY = "labels"
"""The field of a snapshot's `origin` that lists the labels."""

Labels = Mapping[str, Sequence[str]]
"""Column → its labels; the place of a label is its number."""


def labels_of(table: ColumnTable, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The distinct values of columns of text of one shard. Raises `ConfigError` if there is no such column."""
    return {name: _values(table, name) for name in names}


def text_columns(table: ColumnTable) -> list[str]:
    """The user's columns of text, which may be labels."""
    return [spec.name for spec in table.specs if spec.kind is ColumnKind.STRING and not spec.is_fact]


def _values(table: ColumnTable, name: str) -> frozenset[str]:
    if name not in (texts := text_columns(table)):
        raise ConfigError(
            f"source.labels: {name!r} is no column of text of the metadata; those are {', '.join(texts) or 'none'}"
        )
    column = table.column(name)
    first_rows, _ = column.grouped()
    return frozenset(column.take(first_rows)) - {None}


def appended(before: Labels, found: Iterable[Labels]) -> dict[str, list[str]]:
    """The labels of a snapshot: those of the one before, then new ones, sorted.

    >>> appended({"bird": ["wren", "crow"]}, [{"bird": ("crow", "owl")}, {"bird": ("finch",)}])
    {'bird': ['wren', 'crow', 'finch', 'owl']}
    """
    values: dict[str, set[str]] = {name: set() for name in before}
    for one in found:
        for name, these in one.items():
            values.setdefault(name, set()).update(these)
    known = {name: before.get(name, ()) for name in sorted(values)}
    return {name: [*labels, *sorted(values[name].difference(labels))] for name, labels in known.items()}


def labels_in(snapshot: Snapshot) -> dict[str, list[str]]:
    """The labels of a snapshot. Raises `FormatError` if what it says of them is invalid."""
    listed: Any = snapshot.origin.get(LABELS_KEY, {})
    try:
        return typed(dict[str, list[str]], listed)
    except ValueError as error:
        raise FormatError(f"a snapshot lists invalid labels ({error}); build again") from error
