"""Finds which sets of columns a view reads. No column is read here."""

from itertools import chain

from headrace.format.beside.views import ViewDefinition
from headrace.views.names import FACT, ColumnNames, MeantColumn
from headrace.views.sql import column_parts, described
from headrace.views.syntax import names_in


def columns_of_counts(definition: ViewDefinition, names: ColumnNames) -> tuple[MeantColumn, ...]:
    """The keys of samples, with balance after the column whose values are the groups; nothing without balance or times.

    Raises:
        ConfigError: there is no such column.
    """
    if definition.times is not None:
        return (names.meant((FACT, "key"), f"{described(definition.times, 'times')}, which needs the keys of samples"),)
    if definition.balance is None:
        return ()
    what = f"balance by {definition.balance.by}"
    return (
        names.meant(column_parts(definition.balance.by), what),
        names.meant((FACT, "key"), f"{what}, which needs the keys of samples"),
    )


def sets_of(definition: ViewDefinition, names: ColumnNames) -> tuple[str, ...]:
    """The sets of columns that a view reads, sorted.

    Raises:
        ConfigError: a name is not that of one column.
    """
    texts = {"where": definition.where, "times": definition.times}
    meant = [
        names.meant_by(names_in(text, what), described(text, what)).values()
        for what, text in texts.items()
        if text is not None
    ]
    found = (*chain.from_iterable(meant), *columns_of_counts(definition, names))
    return tuple(sorted({column.set for column in found}))
