"""The keys that say how a table of the user is read: those of `source.table`, also beside the `uri` of other tables."""

from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from headrace.config.section import Section, Uri, checked_uri


class TableFormat(StrEnum):
    """The format of a table's file (`source.table.format`)."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Quotes(StrEnum):
    """The meaning of double quotation marks in a CSV or TSV file (`source.table.quotes`)."""

    STANDARD = "standard"
    """RFC 4180: a cell in quotation marks may hold separators, line breaks and doubled quotation marks."""
    NONE = "none"
    """A quotation mark is a character like any other, and each line is a row."""


class ColumnType(StrEnum):
    """The type of a column (`source.table.types`)."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    JSON = "json"
    INTERVALS = "intervals"
    """Lists of `{start, end, …}`, in seconds."""

    @property
    def is_json(self) -> bool:
        """Whether cells of text are JSON."""
        return self in {ColumnType.JSON, ColumnType.INTERVALS}


_ColumnName = Annotated[str, Field(min_length=1)]


class TableConfig(Section):
    """The section `source.table`: how the file of a table is read.

    Attributes:
        format: the file's format; None takes it from the file's name.
        delimiter: what is between the cells of a line; None is a comma, in TSV a tab.
        quotes: the meaning of double quotation marks.
        header: names of the columns of a file without a line of names.
        types: column → its type; the types of other columns are found from all of their cells.
    """

    format: TableFormat | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1, pattern=r'^[^"\r\n\\]$')] | None = None
    quotes: Quotes = Quotes.STANDARD
    header: Annotated[tuple[_ColumnName, ...], Field(min_length=1)] | None = None
    types: dict[_ColumnName, ColumnType] = Field(default_factory=dict)

    def without_types(self, columns: Container[str]) -> Self:
        """The section without the types of these columns, which another table has."""
        types = {name: kind for name, kind in self.types.items() if name not in columns}
        return self.model_copy(update={"types": types})

    @model_validator(mode="after")
    def _is_of_text(self) -> Self:
        if self.format in {TableFormat.JSONL, TableFormat.PARQUET}:
            given = [name for name in ("delimiter", "header") if getattr(self, name) is not None]
            if given:
                raise ValueError(f"{given[0]} is for csv and tsv, but format is {self.format}; remove one of them")
        if unknown := sorted(set(self.types) - set(self.header or self.types)):
            raise ValueError(
                f"types: header has no column {unknown[0]!r}; its columns are {', '.join(self.header or ())}"
            )
        return self


class TableFile(TableConfig):
    """A table of the user, and how it is read.

    Attributes:
        uri: path or URL of the file.
    """

    uri: Uri


def checked_table(value: object) -> TableFile:
    """The table that a path, a URL, or a section with `uri` names. Raises `ValueError`."""
    if isinstance(value, TableFile):
        return value
    if isinstance(value, str) and value:
        return TableFile(uri=checked_uri(value))
    if isinstance(value, Mapping):
        return TableFile.model_validate(value)
    raise ValueError("expected the path or URL of a table, or {uri: PATH, …} with keys of source.table")


Table = Annotated[TableFile, BeforeValidator(checked_table)]
"""A table: in the YAML its path or URL, or a section with `uri` and keys of `source.table`."""
