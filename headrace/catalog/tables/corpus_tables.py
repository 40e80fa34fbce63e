"""Makes a metadata table of the rows that a corpus itself has (`headrace.sources.corpus_rows`)."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.tables.interval_rows import IntervalRows
from headrace.catalog.tables.json_lines import read_json_lines
from headrace.catalog.tables.metadata_files import (
    TEXT_COLUMNS,
    MetadataTable,
    TypedTable,
    check_column,
    checked_schema,
    with_origins,
)
from headrace.catalog.tables.row_origins import RowOrigin, line_names
from headrace.config.source import SPAN_ROLES, SourceConfig
from headrace.config.tables import ColumnType
from headrace.errors import ConfigError
from headrace.format.typed_json import json_of, json_value
from headrace.path_templates import columns_of
from headrace.source_kinds import ROW_PLACE, source_kind
from headrace.stores.temporary_room import temporary_room

_PIECE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class CorpusTable:
    """A `MetadataTable` of the rows that a corpus has, which may say where they are (`ROW_PLACE`)."""

    table: MetadataTable

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return pl.Schema({name: dtype for name, dtype in self.table.schema.items() if name != ROW_PLACE})

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return (batch for batch, _ in self.with_origins())

    def with_origins(self) -> Iterator[tuple[pl.DataFrame, RowOrigin]]:
        """The rows in order, some at a time, and where they come from."""
        for batch in self.table.batches():
            nothing = pl.repeat(None, batch.height, dtype=pl.String, eager=True)
            yield batch.select(self.schema.keys()), RowOrigin(None, batch.to_dict().get(ROW_PLACE, nothing))


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

    def with_origins(self) -> Iterator[tuple[pl.DataFrame, RowOrigin | None]]:
        """The rows in order, some at a time, and where they come from."""
        return with_origins(self.table)


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A `MetadataTable` of the rows of a corpus with the columns of another table, joined by key.

    A row of the other table without a key, or whose key no row of the corpus has, comes at the end, without a path: a
    scan rejects it.

    Attributes:
        rows: the rows of the corpus.
        others: the other table, and the name of each row (`ROW_PLACE`); it has each key once, and no other column of
            the rows.
        key: the column that both have.
    """

    rows: MetadataTable
    others: pl.DataFrame
    key: str

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return pl.Schema({**self.rows.schema, **self.others.drop(ROW_PLACE).schema})

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return (batch for batch, _ in self.with_origins())

    def with_origins(self) -> Iterator[tuple[pl.DataFrame, RowOrigin | None]]:
        """The rows in order, some at a time, and where they come from."""
        left = self.others
        for batch, origin in with_origins(self.rows):
            left = left.join(batch, on=self.key, how="anti", maintain_order="left")
            joined = batch.join(self.others, on=self.key, how="left", maintain_order="left")
            yield joined.select(*self.schema), origin
        if not left.is_empty():
            alone = pl.concat([self.schema.to_frame(), left.drop(ROW_PLACE)], how="diagonal")
            unknown = pl.format("has the key '{}', which no row of the source has", self.key)
            lacking = pl.lit(f"has no key in column {self.key!r}, so that it belongs to no row of the source")
            faults = left.select(pl.coalesce(unknown, lacking)).to_series()
            yield alone, RowOrigin(None, left[ROW_PLACE], faults=faults)


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
    """Names of the columns of a table, without those that were joined to the rows of a corpus.

    Of intervals, the key that joined their rows is left out: several intervals have it.
    """
    if isinstance(table, ChosenTable):
        return names_of_rows(table.table)
    if isinstance(table, IntervalRows):
        joined_by = table.table.key if isinstance(table.table, JoinedTable) else None
        return (*(name for name in names_of_rows(table.table) if name != joined_by), *table.intervals)
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
    others = _with_places(metadata).with_columns(pl.col(key).replace("", None))
    if key not in rows.schema:
        raise ConfigError(f"source.metadata: the rows of the source have no column {key!r}, by which both are joined")
    if both := sorted((rows.schema.keys() & others.schema.keys()) - {key}):
        raise ConfigError(f"source.metadata: column {both[0]!r} is in the rows of the source, too; rename it")
    twice = others.filter(pl.col(key).is_duplicated() & pl.col(key).is_not_null())
    if twice.height:
        name, places = twice[key][0], twice.filter(pl.col(key) == twice[key][0])[ROW_PLACE]
        raise ConfigError(f"source.metadata: the {key} {name!r} is in {places[0]} and in {places[1]}; keep one of them")
    return ChosenTable(JoinedTable(rows.table, others, key), rows.num_left_out)


def _with_places(metadata: MetadataTable) -> pl.DataFrame:
    """All rows of a table, with a column of their names (`ROW_PLACE`)."""
    schema = pl.Schema({**metadata.schema, ROW_PLACE: pl.String()})
    named = (
        batch.with_columns(line_names(origin.file, origin.lines, origin.unit).alias(ROW_PLACE))
        for batch, origin in with_origins(metadata)
        if origin is not None and origin.file is not None
    )
    return pl.concat([schema.to_frame(), *named], rechunk=True)


@contextmanager
def _text_of(shown: str) -> Iterator[None]:
    """A block in which a lone surrogate in a row, which JSON can have, is a `ConfigError`."""
    try:
        yield
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 40) : error.end]
        raise ConfigError(
            f"{shown}: half of a surrogate pair (at the end of {near!r}), which is not a character; "
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
    shown = f"rows of source.uri {source.uri} (kind {source.kind})"
    encode = json.JSONEncoder(ensure_ascii=False, default=json_of).encode
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
        implied = {name: ColumnType(word) for name, word in source_kind(source.kind).types.items()}
        types = {
            name: kind
            for name, kind in (implied | source.table.types).items()
            if name in names or (name not in implied and not source.metadata)
        }
        return ChosenTable(_read_rows(Path(file.name), shown, source, types), num_left_out)


def _read_rows(file: Path, shown: str, source: SourceConfig, types: Mapping[str, ColumnType]) -> CorpusTable:
    """The rows in a file of JSON Lines. See `open_rows`."""
    paths = columns_of(source.path_column)
    texts = tuple(dict.fromkeys((*TEXT_COLUMNS, *paths, *source.text_columns, "id")))
    mixed = [name for name in [source.columns.channel] if name is not None]
    named = partial(_named, file, paths)
    table = read_json_lines(file, shown, (*texts, ROW_PLACE), types, named=named, mixed=mixed)
    schema = pl.Schema({name: dtype for name, dtype in table.schema.items() if name != ROW_PLACE})
    for column in paths:
        check_column(schema, shown, column, "relative to source.uri")
    typed = checked_schema(schema, shown, texts, types)
    places = {ROW_PLACE: pl.String()} if ROW_PLACE in table.schema else {}
    return CorpusTable(TypedTable(pl.Schema({**typed, **places}), table))


def _named(file: Path, paths: Sequence[str], number: int) -> str:
    """The name of the row in a line of a file, for messages."""
    with file.open("rb") as lines:
        row = json_value(next(islice(lines, number - 1, None)))
    path = next((str(row[name]) for name in paths if row.get(name)), "")
    of, name = f" of {path}" if path else "", f" (id {row['id']!r})" if row.get("id") else ""
    return str(row.get(ROW_PLACE) or f"the row{of}{name}")
