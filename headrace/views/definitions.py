"""Finds which sets of columns a view reads. No column is read here."""

from headrace.format.beside.views import ViewDefinition
from headrace.views.names import FACT, ColumnNames, MeantColumn
from headrace.views.sql import column_parts, described
from headrace.views.syntax import names_in


def columns_of_balance(definition: ViewDefinition, names: ColumnNames) -> tuple[MeantColumn, ...]:
    """The column whose values are the groups, and the keys of samples; nothing without balance.

    Raises:
        ConfigError: there is no such column.
    """
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
    where = definition.where
    of_where = [] if where is None else names.meant_by(names_in(where), described(where)).values()
    return tuple(sorted({column.set for column in (*of_where, *columns_of_balance(definition, names))}))
