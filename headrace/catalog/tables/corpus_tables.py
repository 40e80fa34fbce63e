"""Makes a metadata table of the rows that a corpus itself has (`headrace.sources.corpus_rows`)."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.tables.interval_rows import IntervalRows
from headrace.catalog.tables.metadata_files import MetadataTable, in_memory, open_metadata
from headrace.config.source import SPAN_ROLES, SourceConfig
from headrace.config.tables import ColumnType, TableConfig, TableFormat
from headrace.errors import ConfigError
from headrace.source_kinds import source_kind
from headrace.stores.temporary_room import temporary_room

_PIECE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChosenTable:
    """A `MetadataTable` without the rows that the corpus leaves out.

    Attributes:
        table: the other rows.
        num_left_out: how many were left out.
    """

    table: MetadataTable
    num_left_out: int

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return self.table.schema

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return self.table.batches()


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A `MetadataTable` of the rows of a corpus with the columns of another table, joined by key.

    A row of the other table whose key no row of the corpus has comes at the end, without a path: a scan rejects it.

    Attributes:
        rows: the rows of the corpus.
        others: the other table; it has each key once, and no other column of the rows.
        key: the column that both have.
    """

    rows: MetadataTable
    others: pl.DataFrame
    key: str

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return pl.Schema({**self.rows.schema, **self.others.schema})

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        left = self.others
        for batch in self.rows.batches():
            left = left.join(batch, on=self.key, how="anti", maintain_order="left")
            yield batch.join(self.others, on=self.key, how="left", maintain_order="left").select(*self.schema)
        if not left.is_empty():
            yield pl.concat([self.schema.to_frame(), left], how="diagonal")


def with_intervals(table: MetadataTable, source: SourceConfig) -> MetadataTable:
    """The rows that `source.rows` makes of a table; the table itself without it."""
    if source.rows is None:
        return table
    if isinstance(table, ChosenTable):
        return ChosenTable(with_intervals(table.table, source), table.num_left_out)
    implied = source_kind(source.kind).columns
    spans = [implied.get(role, "") for role in SPAN_ROLES] if source.has_own_rows else SPAN_ROLES
    return IntervalRows.of(table, source.rows, source.path_column, spans)


def names_of_rows(table: MetadataTable) -> tuple[str, ...]:
    """Names of the columns of a table, without those that were joined to the rows of a corpus."""
    if isinstance(table, ChosenTable):
        return names_of_rows(table.table)
    if isinstance(table, IntervalRows):
        return (*names_of_rows(table.table), *table.intervals)
    return tuple(table.rows.schema if isinstance(table, JoinedTable) else table.schema)


def with_metadata(rows: ChosenTable, metadata: MetadataTable, key: str) -> ChosenTable:
    """The rows of a corpus with the columns of a metadata table, which is in memory.

    Args:
        rows: the rows.
        metadata: the table.
        key: the column that both have; it is text.

    Raises:
        ConfigError: a key comes twice in the table, the rows have no such column, or another column is in both.
    """
    others = in_memory(metadata).filter(pl.col(key).is_not_null())
    if key not in rows.schema:
        raise ConfigError(f"source.metadata: the rows of the source have no column {key!r}, by which both are joined")
    if both := sorted((rows.schema.keys() & others.schema.keys()) - {key}):
        raise ConfigError(f"source.metadata: column {both[0]!r} is in the rows of the source, too; rename it")
    if (twice := others.filter(pl.col(key).is_duplicated())).height:
        raise ConfigError(f"source.metadata: the {key} {twice[key][0]!r} is in several rows; keep one of them")
    return ChosenTable(JoinedTable(rows.table, others, key), rows.num_left_out)


@contextmanager
def _text_of(shown: str) -> Iterator[None]:
    """A block in which a lone surrogate in a row, which JSON can have, is a `ConfigError`."""
    try:
        yield
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 40) : error.end]
        raise ConfigError(
            f"a row {shown}: half of a surrogate pair (at the end of {near!r}), which is not a character; "
            "write the text again"
        ) from error


def open_rows(rows: Iterator[Mapping[str, Any]], source: SourceConfig) -> ChosenTable:
    """The rows as a table, without those that are left out. The types of its columns follow from all rows.

    Args:
        rows: the rows of the corpus, read once.
        source: the section of the YAML, for the columns that are text and declared types.

    Raises:
        ConfigError: the corpus cannot be read or has no row, or the values of a column have different kinds.
        StorageError: the temporary folder is full.
    """
    shown = f"of source.uri {source.uri} (kind {source.kind})"
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        num_left_out, names = 0, set[str]()
        while piece := list(islice(rows, _PIECE_ROWS)):
            with temporary_room("a table"), _text_of(shown):
                file.writelines(encode(row) + "\n" for row in piece if row)
            names.update(*filter(None, piece))
            num_left_out += sum(not row for row in piece)
        with temporary_room("a table"):
            file.flush()
        if not Path(file.name).stat().st_size:
            raise ConfigError(f"source.uri {source.uri}: the {source.kind} corpus has no row, so there is no sample")
        form = TableConfig() if source.metadata else source.table
        implied = {name: ColumnType(word) for name, word in source_kind(source.kind).types.items() if name in names}
        form = form.model_copy(update={"format": TableFormat.JSONL, "types": implied | form.types})
        texts = (*source.text_columns, "id")
        table = open_metadata(Path(file.name), shown, path_column=source.path_column, text_columns=texts, form=form)
        return ChosenTable(table, num_left_out)
