"""Evaluates `source.where`: which rows of the metadata table take part in a scan."""

from dataclasses import dataclass

import polars as pl

from headrace.catalog.rows.column_types import specs_of_table, typed_columns
from headrace.errors import ConfigError
from headrace.views.expression import Condition
from headrace.views.names import METADATA, ColumnNames


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition on the columns of a table, with the rules of the conditions of views.

    Attributes:
        condition: the condition.
        columns: the columns that it reads.
    """

    condition: Condition
    columns: tuple[str, ...]

    @classmethod
    def of(cls, where: str, schema: pl.Schema) -> "RowCondition":
        """The condition on a table with these columns. Raises `ConfigError` if it is not one."""
        try:
            found = Condition.of(where, ColumnNames({METADATA: specs_of_table(schema.to_frame())}))
        except ConfigError as error:
            raise ConfigError(f"source.where: {error}") from error
        return cls(found, tuple(column.spec.name for column in found.columns))

    def chosen(self, rows: pl.DataFrame) -> pl.Series:
        """Whether each row fulfils the condition; null counts as false. Raises `ConfigError`."""
        columns = typed_columns(rows.select(self.columns), range(rows.height))
        try:
            return pl.Series(self.condition.mask(columns, rows.height))
        except ConfigError as error:
            raise ConfigError(f"source.where: {error}") from error
