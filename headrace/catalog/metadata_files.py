"""Reads the metadata table and the table of excluded keys from a file: CSV, TSV, JSON Lines or Parquet.

Errors name the file and the line. `headrace.catalog.metadata_rows` prepares the rows for joining them to recordings.

CSV has no types. They are inferred here by fixed rules, from all rows, and not by a library, whose rules may change and
make every recording stale. A column is integer, float, boolean or list only if every non-empty cell is written that
way, so `007` stays text and keeps its zeros. Dates stay text, because JSON has no dates.
"""

import csv
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from headrace.catalog.json_lines import read_json_lines
from headrace.errors import ConfigError

_TEXT_COLUMNS = ("path", "key")
"""Columns that are text even if all of their values look like numbers, besides those that `source.columns` names."""

BATCH_ROWS = 50_000
"""Rows of a batch of a `MetadataTable`, at most."""

_FIRST_ROWS = 1000
_BATCH_BYTES = 8 << 20

_CHUNK_ROWS = 10_000
_MAX_CELL_CHARS = 1 << 24
_INTEGER_LIMIT = 1 << 63
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_FLOAT = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(?i)[+-]?(nan|inf|infinity)$"
_BOOLEAN = r"^(?i)(true|false)$"
_LIST = r"^\[[\s\S]*\]$"


class MetadataTable(Protocol):
    """A table that is read in batches, as often as needed."""

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""


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
class ParquetTable:
    """A `MetadataTable` that is read from a Parquet file, some rows at a time.

    Attributes:
        schema: names and types of the columns, as a data set has them.
        file: the file.
        name: its name in error messages.
        owner: kept as long as the table, for example the folder of a temporary copy.
    """

    schema: pl.Schema
    file: Path
    name: str
    owner: object = None

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time. Raises `ConfigError` if they cannot be read."""
        rows = pl.scan_parquet(self.file, low_memory=True)
        start, size = 0, min(_FIRST_ROWS, BATCH_ROWS)
        while True:
            try:
                batch = rows.slice(start, size).collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise ConfigError(f"{self.name}: not a readable Parquet file: {error}") from error
            if batch.is_empty():
                return
            yield batch.cast(self.schema)
            start += size
            size = max(1, min(BATCH_ROWS, _BATCH_BYTES * batch.height // max(1, int(batch.estimated_size()))))


def open_metadata(
    path: str | os.PathLike[str],
    shown: str | None = None,
    *,
    path_column: str = "path",
    text_columns: Sequence[str] = (),
    owner: object = None,
) -> MetadataTable:
    """Open a metadata table. A Parquet file is read in batches, any other file at once (`read_metadata`).

    Args:
        path: as in `read_metadata`, and so are the other arguments and the errors.
        shown: name of the file in error messages; by default its path.
        path_column: the column that the table needs; it is text.
        text_columns: other columns that are text.
        owner: see `ParquetTable`.
    """
    file = Path(path)
    if file.suffix.lower() != ".parquet" or not file.is_file():
        return TableInMemory(read_metadata(path, shown, path_column=path_column, text_columns=text_columns))
    name = f"metadata table {shown or path}"
    texts = tuple(dict.fromkeys((*_TEXT_COLUMNS, path_column, *text_columns)))
    try:
        schema = pl.Schema(pl.read_parquet_schema(file))
        schema.to_frame()  # fails for types that no table can have, such as decimals of more than 38 digits
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{name}: not a readable Parquet file: {error}") from error
    table = ParquetTable(_stored_types(schema, name, texts), file, name, owner)
    _check_column(table.schema, name, path_column, "relative to source.uri")
    return table


def read_metadata(
    path: str | os.PathLike[str],
    shown: str | None = None,
    *,
    path_column: str = "path",
    text_columns: Sequence[str] = (),
) -> pl.DataFrame:
    """Read a metadata table: all rows, in the file's order. `path`, `key` and the columns of paths and keys are text.

    Args:
        path: a `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json` (JSON Lines) or `.parquet` file with a column `path`.
        shown: name of the file in error messages; by default its path.
        path_column: the column that the table needs; it is text.
        text_columns: other columns that are text.

    Raises:
        ConfigError: the file does not exist, is not a regular file, is invalid (the message names the line if
            possible), has another extension, or has no column `path`.
    """
    name = f"metadata table {shown or path}"
    table = _read(Path(path), name, (path_column, *text_columns))
    _check_column(table.schema, name, path_column, "relative to source.uri")
    return table


def read_table(path: str | os.PathLike[str], shown: str) -> pl.DataFrame:
    """Read a table that is joined to samples (`columns`). Arguments, types and errors are those of `read_metadata`.

    Which column is joined, and whether the table has it, is checked by the caller.
    """
    return _read(Path(path), f"table {shown} (columns)")


def read_keys(path: str | os.PathLike[str], shown: str | None = None) -> frozenset[str]:
    """Read the column `key` of a table, without empty cells. Arguments and errors are those of `read_metadata`."""
    name = f"table of keys {shown or path} (exclude)"
    table = _read(Path(path), name)
    _check_column(table.schema, name, "key", "keys of samples")
    return frozenset(table["key"].drop_nulls().to_list()) - {""}


def _check_column(schema: pl.Schema, name: str, column: str, meaning: str) -> None:
    """Raise `ConfigError` if a table lacks a column. The message begins with `name`."""
    if column not in schema:
        found = ", ".join(schema) or "none"
        raise ConfigError(f"{name}: has no column {column!r} ({meaning}); its columns are: {found}")


def _read(file: Path, name: str, others: Sequence[str] = ()) -> pl.DataFrame:
    """Read a table; `path`, `key` and `others` are text. Error messages begin with `name`."""
    texts = tuple(dict.fromkeys((*_TEXT_COLUMNS, *others)))
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise ConfigError(f"{name}: the file's name must end in one of {', '.join(_READERS)}")
    if not file.is_file():  # before it is opened: a pipe would wait for a writer
        raise ConfigError(f"{name}: {_why_no_file(file)}")
    try:
        table = reader(file, name, texts)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not valid UTF-8 (byte {error.start}); convert the file to UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}") from error
    return table.cast(_stored_types(table.schema, name, texts))


def _stored_types(schema: pl.Schema, name: str, texts: Sequence[str]) -> pl.Schema:
    """The types that the columns of a table get. Raises `ConfigError` if one of `texts` holds lists or objects."""
    texts = tuple(text for text in texts if text in schema)
    if nested := [text for text in texts if schema[text].is_nested()]:
        raise ConfigError(f"{name}: column {nested[0]!r} must be text, found {schema[nested[0]]}")
    # A column of only nulls, or of only empty lists, becomes text, which every reader of Parquet supports.
    nothing = {pl.Null(): pl.String(), pl.List(pl.Null()): pl.List(pl.String())}
    types = {column: nothing.get(dtype, dtype) for column, dtype in schema.items()}
    return pl.Schema(types | dict.fromkeys(texts, pl.String()))


def _why_no_file(path: Path) -> str:
    """What is found where a file is expected."""
    if path.is_dir():
        return "a folder, not a file; name the file in it"
    if path.exists():
        return "not a regular file but a pipe, socket or device; write the table to a file"
    if path.is_symlink():
        return f"a symbolic link to {path.readlink()}, which does not exist; correct the link or remove it"
    return "there is no such file"


def _read_delimited(file: Path, name: str, texts: tuple[str, ...], delimiter: str) -> pl.DataFrame:
    """Read cells as text, then infer types. Reads in chunks, so that no list of all rows is made."""
    csv.field_size_limit(_MAX_CELL_CHARS)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            _check_header(header, name)
            schema = dict.fromkeys(header, pl.String)
            chunks = [pl.DataFrame(schema=schema)]
            rows = _whole_rows(reader, header, name)
            while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
                chunks.append(pl.DataFrame(list(zip(*chunk, strict=True)), schema=schema, orient="col"))
        except csv.Error as error:
            raise ConfigError(f"{name}, line {reader.line_num}: {error}") from error
    cells = pl.concat(chunks, rechunk=True)
    return pl.DataFrame(
        [cells[column].replace("", None) if column in texts else typed(cells[column]) for column in header]
    )


def _check_header(header: list[str], name: str) -> None:
    unnamed = [number for number, column in enumerate(header, 1) if not column]
    if unnamed:
        hint = "pandas writes one for its index: use to_csv(…, index=False)"
        raise ConfigError(f"{name}: column {unnamed[0]} has no name ({hint})")
    if twice := sorted({column for column in header if header.count(column) > 1}):
        raise ConfigError(f"{name}: two columns are named {twice[0]!r}")


def _whole_rows(reader: Iterator[list[str]], header: list[str], name: str) -> Iterator[list[str]]:
    for row in reader:
        if not row:  # a blank line
            continue
        if len(row) != len(header):
            line = reader.line_num  # type: ignore[attr-defined]  # csv's reader has no public type
            raise ConfigError(
                f"{name}, line {line}: {len(row)} cells, but the header has {len(header)} columns; "
                "put cells that hold the separator or a line break in double quotes"
            )
        yield row


def typed(cells: pl.Series) -> pl.Series:
    """Convert a column of text to the type that every non-empty cell is written in. Empty cells become null.

    >>> typed(pl.Series(["1", "", "2.5"])).to_list()
    [1.0, None, 2.5]
    >>> typed(pl.Series(["007", "12"])).to_list()
    ['007', '12']
    >>> typed(pl.Series(["1", "12345678901234567890"])).to_list()
    ['1', '12345678901234567890']
    >>> typed(pl.Series(["[1, 2]", ""])).to_list()
    [[1, 2], None]
    """
    cells = cells.replace("", None)
    bare = cells.str.strip_chars()
    filled = bare.drop_nulls()
    if filled.is_empty():
        return cells
    if filled.str.contains(_INTEGER).all():
        whole = bare.cast(pl.Int64, strict=False)
        return (
            whole if whole.null_count() == bare.null_count() else cells
        )  # integers beyond int64 would lose digits as floats
    if filled.str.contains(_FLOAT).all():
        return bare.cast(pl.Float64)
    if filled.str.contains(_BOOLEAN).all():
        return bare.str.to_lowercase() == "true"
    if filled.str.contains(_LIST).all():
        return _lists(bare, cells)
    return cells


def _lists(bare: pl.Series, cells: pl.Series) -> pl.Series:
    """JSON lists as a list column; the text itself if a cell is not valid JSON or element types differ."""
    try:
        dtype = _element_type(json.loads(cell) for cell in bare.drop_nulls())
        return cells if dtype is None else bare.str.json_decode(pl.List(dtype))
    except (ValueError, RecursionError, pl.exceptions.PolarsError):
        return cells


def _element_type(lists: Iterable[list[Any]]) -> pl.DataType | None:
    """Common type of the elements of all lists, or None. Inference by polars would turn 0.5 after 1 into 0."""
    elements = [element for element in itertools.chain.from_iterable(lists) if element is not None]
    kinds = set(map(type, elements))
    if kinds == {int}:
        return pl.Int64() if min(elements) >= -_INTEGER_LIMIT and max(elements) < _INTEGER_LIMIT else None
    if kinds == {list}:
        inner = _element_type(elements)
        return None if inner is None else pl.List(inner)
    if kinds == {str}:
        "".join(elements).encode()  # half of a surrogate pair is a ValueError; polars would make it a zero byte
    types = {frozenset({bool}): pl.Boolean(), frozenset({str}): pl.String(), frozenset(): pl.String()}
    return pl.Float64() if kinds and kinds <= {int, float} else types.get(frozenset(kinds))


def _read_parquet(file: Path, name: str, _texts: tuple[str, ...]) -> pl.DataFrame:
    try:
        return pl.read_parquet(file)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{name}: not a readable Parquet file: {error}") from error


_READERS: dict[str, Callable[[Path, str, tuple[str, ...]], pl.DataFrame]] = {
    ".csv": partial(_read_delimited, delimiter=","),
    ".tsv": partial(_read_delimited, delimiter="\t"),
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_lines,
    ".parquet": _read_parquet,
}
