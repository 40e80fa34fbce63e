"""Opens the metadata table and other tables of a user: CSV, TSV, JSON Lines or Parquet. Rows are read in batches.

Errors name the file and the line. `headrace.catalog.rows.metadata_rows` prepares the rows for joining them to
recordings. CSV has no types; `headrace.catalog.tables.cell_types` finds them.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import polars as pl

from headrace.catalog.tables.column_casts import castable
from headrace.catalog.tables.compressed_files import UnpackedFile, is_compressed
from headrace.catalog.tables.declared_types import DTYPES, intervals_type, is_intervals
from headrace.catalog.tables.delimited_files import DelimitedTable, read_delimited
from headrace.catalog.tables.delimited_rows import Dialect
from headrace.catalog.tables.json_arrays import array_as_lines
from headrace.catalog.tables.json_lines import in_order, read_json_lines
from headrace.catalog.tables.one_schema import NamedTable, common_types, has_several_kinds
from headrace.catalog.tables.parquet_tables import BATCH_ROWS, open_parquet
from headrace.catalog.tables.row_origins import RowOrigin, TableFileName
from headrace.config.tables import ColumnType, TableConfig, TableFormat
from headrace.errors import ConfigError, StorageError
from headrace.path_templates import columns_of

TEXT_COLUMNS = ("path", "key")
"""Columns that are text even if all of their values look like numbers, besides those that `source.columns` names."""

STANDARD = TableConfig()
"""Table configuration without further settings."""

_EXTENSIONS = {
    ".csv": TableFormat.CSV,
    ".tsv": TableFormat.TSV,
    ".jsonl": TableFormat.JSONL,
    ".ndjson": TableFormat.JSONL,
    ".json": TableFormat.JSONL,
    ".parquet": TableFormat.PARQUET,
}


class MetadataTable(Protocol):
    """A table that is read in batches, as often as needed."""

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""


@dataclass(frozen=True, slots=True)
class TextColumns:
    """Columns of text.

    Attributes:
        always: they become text, whatever their values are.
        if_mixed: they become text if their values have several kinds, such as the numbers and lists of channels.
    """

    always: tuple[str, ...]
    if_mixed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableInMemory:
    """A `MetadataTable` that is a data frame."""

    table: pl.DataFrame

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return self.table.schema

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return self.table.iter_slices(BATCH_ROWS)


@dataclass(frozen=True, slots=True)
class TypedTable:
    """A `MetadataTable` whose columns get other types. Columns that the file lacks are null.

    Attributes:
        schema: names and types of the columns.
        table: the table as it is in the file.
        owner: kept as long as the table, for example the folder of a temporary copy.
    """

    schema: pl.Schema
    table: MetadataTable
    owner: object = None

    @property
    def unit(self) -> str:
        """See `NumberedTable`; tables without lines have rows."""
        return getattr(self.table, "unit", "row")

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return map(self._typed, self.table.batches())

    def numbered(self) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """See `NumberedTable`."""
        if hasattr(self.table, "numbered"):
            yield from ((self._typed(batch), numbers) for batch, numbers in self.table.numbered())
            return
        first = 1
        for batch in self.batches():
            yield batch, pl.int_range(first, first + batch.height, eager=True)
            first += batch.height

    def _typed(self, batch: pl.DataFrame) -> pl.DataFrame:
        lacking = {name: dtype for name, dtype in self.schema.items() if name not in batch.columns}
        nulls = (pl.lit(None, dtype=dtype).alias(name) for name, dtype in lacking.items())
        whole = batch.with_columns(nulls)
        ready = (castable(pl.col(name), whole.schema[name], dtype).alias(name) for name, dtype in self.schema.items())
        return whole.select(ready).cast(self.schema)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A `MetadataTable` of one or more files, whose rows follow each other.

    Attributes:
        schema: names and types of the columns of all files.
        files: each file and its table; all tables have this schema.
    """

    schema: pl.Schema
    files: tuple[tuple[TableFileName, TypedTable], ...]

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return (batch for _, table in self.files for batch in table.batches())

    def with_origins(self) -> Iterator[tuple[pl.DataFrame, RowOrigin]]:
        """The rows in order, some at a time, and where they come from."""
        for file, table in self.files:
            for batch, numbers in table.numbered():
                yield batch, RowOrigin(file, numbers, table.unit, len(self.files) > 1)


def with_origins(table: MetadataTable) -> Iterator[tuple[pl.DataFrame, RowOrigin | None]]:
    """The rows of a table in order, some at a time, and where they come from; None if they are of no file."""
    if hasattr(table, "with_origins"):
        yield from table.with_origins()
    else:
        yield from ((batch, None) for batch in table.batches())


def open_metadata(  # noqa: PLR0913 - a file, its form, and what its columns are for
    path: str | os.PathLike[str],
    shown: str | None = None,
    *,
    path_column: str = "path",
    text_columns: Sequence[str] = (),
    owner: object = None,
    form: TableConfig = STANDARD,
) -> MetadataTable:
    """Open a metadata table that is read in batches. `path`, `key` and the columns of paths and keys are text.

    The types of a CSV or JSON Lines file depend on all of its cells, so it is read here, and kept in a temporary file
    (`headrace.catalog.tables.buckets`) if it is large.

    Args:
        path: a `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json` (JSON Lines, or an array of objects) or `.parquet`
            file with a column `path`.
        shown: name of the file in error messages; by default its path.
        path_column: the column that the table needs; it is text.
        text_columns: other columns that are text.
        owner: see `TypedTable`.
        form: how the file is read, and types of columns.

    Raises:
        ConfigError: the file does not exist, is not a regular file, is invalid (the message names the line if
            possible), has another extension, or has no column `path`.
        StorageError: the temporary folder is full.
    """
    files = [(Path(path), str(shown or path))]
    return open_metadata_files(files, path_column=path_column, text_columns=text_columns, owner=owner, form=form)


def open_metadata_files(  # noqa: PLR0913 - files, their form, and what their columns are for
    files: Sequence[tuple[Path, str]],
    *,
    path_column: str = "path",
    text_columns: Sequence[str] = (),
    owner: object = None,
    form: TableConfig = STANDARD,
    may_lack_types: bool = False,
    mixed_columns: Sequence[str] = (),
) -> MetadataTable:
    """Open a metadata table of one or more files. Types, errors and other arguments are those of `open_metadata`.

    A column has one type in all files, and is null in the files that lack it.

    Args:
        files: each file, and its path or URL in error messages.
        path_column: a column, or a template over columns (`headrace.path_templates`).
        text_columns: as in `open_metadata`, like `owner` and `form`.
        owner: see `TypedTable`.
        form: how each file is read, and types of columns.
        may_lack_types: whether columns with a declared type may be of sidecars instead.
        mixed_columns: columns that are text if their values have several kinds.

    Raises:
        ConfigError: also if the values of a column are of different kinds in two files.
    """
    texts = tuple(dict.fromkeys((*TEXT_COLUMNS, *columns_of(path_column), *text_columns)))
    names = [f"metadata table {shown}" for _, shown in files]
    columns = TextColumns(texts, tuple(mixed_columns))
    opened = [_opened(file, name, form, columns, owner) for (file, _), name in zip(files, names, strict=True)]
    tables = [NamedTable(name, one.table) for name, one in zip(names, opened, strict=True)]
    free = {*texts, *(name for name, kind in form.types.items() if kind in DTYPES)}
    mixed = [column for column in mixed_columns if has_several_kinds(column, tables)]
    types = common_types(tables, free.union(mixed)) | dict.fromkeys(mixed, pl.String())
    if may_lack_types:
        form = form.model_copy(update={"types": {name: kind for name, kind in form.types.items() if name in types}})
    where = names[0] if len(files) == 1 else f"metadata table of {len(files)} files"
    schema = checked_schema(pl.Schema(types), where, texts, form.types)
    for column in columns_of(path_column):
        check_column(schema, where, column, "relative to source.uri")
    typed = (TypedTable(schema, _read_as(one.table, types, free), one.owner) for one in opened)
    return TableFiles(schema, tuple(zip((TableFileName(shown) for _, shown in files), typed, strict=True)))


def with_stored_types(table: MetadataTable, declared: Mapping[str, ColumnType]) -> MetadataTable:
    """A table whose columns have the declared types, and those of a metadata table: a column of nothing is text."""
    there = {column: kind for column, kind in declared.items() if column in table.schema}
    return TypedTable(_stored_types(table.schema, "", (), there), table)


def read_metadata(
    path: str | os.PathLike[str],
    shown: str | None = None,
    *,
    path_column: str = "path",
    text_columns: Sequence[str] = (),
    form: TableConfig = STANDARD,
) -> pl.DataFrame:
    """All rows of a metadata table in memory, in the file's order. Arguments and errors as for `open_metadata`."""
    return in_memory(open_metadata(path, shown, path_column=path_column, text_columns=text_columns, form=form))


def open_table(
    path: str | os.PathLike[str],
    shown: str,
    owner: object = None,
    *,
    form: TableConfig = STANDARD,
    text_columns: Sequence[str] = (),
) -> MetadataTable:
    """Open a table that is joined to samples (`columns`). Arguments, types and errors are those of `open_metadata`.

    Which column is joined, and whether the table has it, is checked by the caller.
    """
    return _open(Path(path), f"table {shown} (columns)", form, text_columns, owner)


def read_keys(path: str | os.PathLike[str], shown: str | None = None, form: TableConfig = STANDARD) -> frozenset[str]:
    """Read the column `key` of a table, without empty cells. Arguments and errors are those of `open_metadata`."""
    name = f"table of keys {shown or path} (exclude)"
    table = _open(Path(path), name, form)
    check_column(table.schema, name, "key", "keys of samples")
    return frozenset().union(*(batch["key"].drop_nulls() for batch in table.batches())) - {""}


def in_memory(table: MetadataTable) -> pl.DataFrame:
    """All rows of a table."""
    return pl.concat([table.schema.to_frame(), *table.batches()], rechunk=True)


def check_column(schema: pl.Schema, name: str, column: str, meaning: str) -> None:
    """Raise `ConfigError` if a table lacks a column. The message begins with `name`."""
    if column not in schema:
        raise ConfigError(f"{name}: has no column {column!r} ({meaning}); its columns are: {_shown_columns(schema)}")


def _shown_columns(schema: pl.Schema) -> str:
    return ", ".join(schema) or "none; there is no row, so nobody knows its columns; write one, or leave it out"


def _open(file: Path, name: str, form: TableConfig, others: Sequence[str] = (), owner: object = None) -> MetadataTable:
    """Open a table; `path`, `key` and `others` are text. Error messages begin with `name`."""
    texts = tuple(dict.fromkeys((*TEXT_COLUMNS, *others)))
    table = _opened(file, name, form, TextColumns(texts), owner)
    return replace(table, schema=checked_schema(table.schema, name, texts, form.types))


def _opened(file: Path, name: str, form: TableConfig, texts: TextColumns, owner: object) -> TypedTable:
    """The table of a file with the types that it has there, which are not those of the columns yet."""
    kind = form.format or _format_of(file, form)
    if kind is None:
        extensions = ", ".join(_EXTENSIONS)
        raise ConfigError(
            f"{name}: the file's name must end in one of {extensions} (.gz or .zst may follow), or `format` "
            "of the table be given"
        )
    if not file.is_file():  # before it is opened: a pipe would wait for a writer
        raise ConfigError(f"{name}: {_why_no_file(file)}")
    try:
        copy = UnpackedFile(file, name) if is_compressed(file) else None
        table = _READERS[kind](file if copy is None else copy.path, name, texts, form)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not valid UTF-8 (byte {error.start}); convert the file to UTF-8") from error
    except StorageError:
        raise
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from error
    return TypedTable(table.schema, table, (owner, copy))


def _read_as(table: MetadataTable, types: Mapping[str, pl.DataType], free: Collection[str]) -> MetadataTable:
    """A table whose cells, if they are text, are read as these types; other values can be cast to them."""
    if not isinstance(table, DelimitedTable):
        return table
    schema = {name: dtype if name in free else types[name] for name, dtype in table.schema.items()}
    return replace(table, schema=pl.Schema(schema))


def _format_of(file: Path, form: TableConfig) -> TableFormat | None:
    """The format that a file's name says; of other names CSV, if the settings are those of a file of text."""
    plain_name = file.with_suffix("") if is_compressed(file) else file
    is_of_text = form.delimiter is not None or form.header is not None
    return _EXTENSIONS.get(plain_name.suffix.lower(), TableFormat.CSV if is_of_text else None)


def checked_schema(schema: pl.Schema, name: str, texts: Sequence[str], types: Mapping[str, ColumnType]) -> pl.Schema:
    """The types that the columns of a table get. Raises `ConfigError`."""
    if lacking := [column for column in types if column not in schema]:
        key = "types, or source.rows" if types[lacking[0]] is ColumnType.INTERVALS else "types"
        raise ConfigError(f"{name}: {key}: there is no column {lacking[0]!r}; the columns are {_shown_columns(schema)}")
    return _stored_types(schema, name, texts, types)


def _read_delimited(file: Path, name: str, texts: TextColumns, form: TableConfig, default: str) -> MetadataTable:
    dialect = Dialect(form.delimiter or default, form.quotes, form.header)
    return read_delimited(file, name, texts.always, dialect, form.types)


def _read_json_lines(file: Path, name: str, texts: TextColumns, form: TableConfig) -> MetadataTable:
    if (array := array_as_lines(file, name)) is None:
        return read_json_lines(file, name, texts.always, form.types, mixed=texts.if_mixed)
    with array as lines:
        return read_json_lines(Path(lines.name), name, texts.always, form.types, unit="row", mixed=texts.if_mixed)


def _open_parquet(file: Path, name: str, texts: TextColumns, form: TableConfig) -> MetadataTable:
    return open_parquet(file, name, texts.always, form.types)


def _stored_types(schema: pl.Schema, name: str, texts: Sequence[str], declared: Mapping[str, ColumnType]) -> pl.Schema:
    """The types that the columns of a table get.

    Raises `ConfigError` if one of `texts` holds lists or objects, or has another declared type.
    """
    texts = tuple(text for text in texts if text in schema)
    if other := [text for text in texts if declared.get(text, ColumnType.TEXT) != ColumnType.TEXT]:
        raise ConfigError(f"{name}: types: column {other[0]!r} holds paths or keys, which are text; remove its type")
    if nested := [text for text in texts if schema[text].is_nested()]:
        raise ConfigError(f"{name}: column {nested[0]!r} must be text, found {schema[nested[0]]}")
    # A column of only nulls, or of only empty lists, becomes text, which every reader of Parquet supports.
    nothing = {pl.Null(): pl.String(), pl.List(pl.Null()): pl.List(pl.String())}
    types = {column: nothing.get(dtype, dtype) for column, dtype in schema.items()}
    types |= {column: in_order(dtype) for column, dtype in schema.items() if is_intervals(dtype)}  # was not declared
    of_intervals = [column for column, kind in declared.items() if kind == ColumnType.INTERVALS]
    types |= {column: intervals_type(schema[column]) for column in of_intervals}
    types |= {column: DTYPES[kind] for column, kind in declared.items() if kind in DTYPES}
    return pl.Schema(types | dict.fromkeys(texts, pl.String()))


def _why_no_file(path: Path) -> str:
    """Explain what is in the place of an expected file."""
    if path.is_dir():
        return "a folder, not a file; name the file in it"
    if path.exists():
        return "not a regular file but a pipe, socket or device; write the table to a file"
    if path.is_symlink():
        return f"a symbolic link to {path.readlink()}, which does not exist; correct the link or remove it"
    return "there is no such file"


_Reader = Callable[[Path, str, TextColumns, TableConfig], MetadataTable]

_READERS: dict[TableFormat, _Reader] = {
    TableFormat.CSV: partial(_read_delimited, default=","),
    TableFormat.TSV: partial(_read_delimited, default="\t"),
    TableFormat.JSONL: _read_json_lines,
    TableFormat.PARQUET: _open_parquet,
}
