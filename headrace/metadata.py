"""Reading the user's table of metadata: CSV, TSV, JSON Lines or Parquet.

Owns types: what a file of text says about its columns, and messages that name the file and the line. Joining the rows
to recordings is `headrace.catalog_rows`'.

CSV has no types. They are inferred here by fixed rules, from all rows, rather than by a library whose rules may change
and make every recording stale: a column is integer, float, boolean or list only if every non-empty cell is written that
way; so `007` stays text and keeps its zeros. Dates stay text: JSON has no others.
"""

import contextlib
import csv
import io
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from headrace.errors import ConfigError
from headrace.metadata_kinds import check_kinds

_TEXT_COLUMNS = ("path", "key")
"""Never numbers, whatever they look like."""

_CHUNK_ROWS = 10_000
_MAX_CELL_CHARS = 1 << 24
_INTEGER_LIMIT = 1 << 63
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_FLOAT = r"^-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(?i)[+-]?(nan|inf|infinity)$"
_BOOLEAN = r"^(?i)(true|false)$"
_LIST = r"^\[[\s\S]*\]$"


def read_metadata(path: str | os.PathLike[str]) -> pl.DataFrame:
    """The table in a file, all rows, in the file's order; `path` and `key` are text.

    Args:
        path: a `.csv`, `.tsv`, `.jsonl`, `.ndjson` or `.parquet` file with a column `path`.

    Raises:
        ConfigError: there is no such file, it is broken (names the line where there is one), of another kind, or
            without the column `path`.
    """
    file = Path(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise ConfigError(f"metadata table {file}: its name must end in one of {', '.join(_READERS)}")
    if not file.is_file():
        raise ConfigError(f"metadata table {file}: there is no such file")
    try:
        table = reader(file)
    except UnicodeDecodeError as error:
        raise ConfigError(f"metadata table {file}: not UTF-8 (byte {error.start}); convert it") from error
    except OSError as error:
        raise ConfigError(f"metadata table {file}: cannot be read: {error.strerror or error}") from error
    if "path" not in table.columns:
        found = ", ".join(table.columns) or "none"
        raise ConfigError(f"metadata table {file}: needs a column 'path', relative to source.uri; it has: {found}")
    texts = [name for name in _TEXT_COLUMNS if name in table.columns]
    if nested := [name for name in texts if table.schema[name].is_nested()]:
        raise ConfigError(f"metadata table {file}: column {nested[0]!r} must be text, found {table.schema[nested[0]]}")
    # Types that say nothing (only nulls, only empty lists) become text, as every reader of Parquet knows it.
    nothing = {pl.Null(): pl.String(), pl.List(pl.Null()): pl.List(pl.String())}
    casts = {name: nothing.get(dtype, dtype) for name, dtype in table.schema.items()}
    return table.cast(casts | dict.fromkeys(texts, pl.String()))  # type: ignore[arg-type]  # a dict of names and types, which polars' stubs spell wider


def _read_delimited(file: Path, delimiter: str) -> pl.DataFrame:
    """A table of text cells, then typed. Chunked, so that no list of all rows is made."""
    csv.field_size_limit(_MAX_CELL_CHARS)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            _check_header(header, file)
            schema = dict.fromkeys(header, pl.String)
            chunks = [pl.DataFrame(schema=schema)]
            rows = _whole_rows(reader, header, file)
            while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
                chunks.append(pl.DataFrame(list(zip(*chunk, strict=True)), schema=schema, orient="col"))
        except csv.Error as error:
            raise ConfigError(f"metadata table {file}, line {reader.line_num}: {error}") from error
    cells = pl.concat(chunks, rechunk=True)
    return pl.DataFrame([cells[name] if name in _TEXT_COLUMNS else typed(cells[name]) for name in header])


def _check_header(header: list[str], file: Path) -> None:
    unnamed = [number for number, name in enumerate(header, 1) if not name]
    if unnamed:
        hint = "pandas writes one for its index: use to_csv(…, index=False)"
        raise ConfigError(f"metadata table {file}: column {unnamed[0]} has no name ({hint})")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise ConfigError(f"metadata table {file}: two columns are named {twice[0]!r}")


def _whole_rows(reader: Iterator[list[str]], header: list[str], file: Path) -> Iterator[list[str]]:
    for row in reader:
        if not row:  # a blank line
            continue
        if len(row) != len(header):
            line = reader.line_num  # type: ignore[attr-defined]  # csv's reader has no public type
            raise ConfigError(
                f"metadata table {file}, line {line}: {len(row)} cells, but the header has {len(header)} columns; "
                "put cells that hold the separator or a line break in double quotes"
            )
        yield row


def typed(cells: pl.Series) -> pl.Series:
    """A column of text as the type that every non-empty cell is written in; empty cells are null.

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
        return whole if whole.null_count() == bare.null_count() else cells  # longer ones would lose digits as floats
    if filled.str.contains(_FLOAT).all():
        return bare.cast(pl.Float64)
    if filled.str.contains(_BOOLEAN).all():
        return bare.str.to_lowercase() == "true"
    if filled.str.contains(_LIST).all():
        return _lists(bare, cells)
    return cells


def _lists(bare: pl.Series, cells: pl.Series) -> pl.Series:
    """JSON lists as a list column; the text itself where a cell is no JSON or the elements are of unlike kinds."""
    try:
        dtype = _element_type(json.loads(cell) for cell in bare.drop_nulls())
        return cells if dtype is None else bare.str.json_decode(pl.List(dtype))
    except (ValueError, pl.exceptions.PolarsError):
        return cells


def _element_type(lists: Iterable[list[Any]]) -> pl.DataType | None:
    """The type of the elements of all lists, None where there is none: polars' own guess makes 0 of 0.5 after a 1."""
    elements = [element for element in itertools.chain.from_iterable(lists) if element is not None]
    kinds = set(map(type, elements))
    if kinds == {int}:
        return pl.Int64() if min(elements) >= -_INTEGER_LIMIT and max(elements) < _INTEGER_LIMIT else None
    if kinds == {list}:
        inner = _element_type(elements)
        return None if inner is None else pl.List(inner)
    types = {frozenset({bool}): pl.Boolean(), frozenset({str}): pl.String(), frozenset(): pl.String()}
    return pl.Float64() if kinds and kinds <= {int, float} else types.get(frozenset(kinds))


def _read_json_lines(file: Path) -> pl.DataFrame:
    check_kinds(file, _TEXT_COLUMNS)
    with contextlib.suppress(pl.exceptions.PolarsError):
        return pl.read_ndjson(file, infer_schema_length=None)
    try:  # what Python's json reads and polars does not: NaN and the infinities, which Python's json also writes
        return pl.read_ndjson(io.BytesIO(_plain_json_lines(file)), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"metadata table {file}: {error}") from error


def _plain_json_lines(file: Path) -> bytes:
    """The same rows without blank lines; NaN and the infinities, which JSON does not have, are null."""
    with file.open("rb") as lines:
        rows = (json.loads(line, parse_constant=lambda _: None) for line in lines if line.strip())
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _read_parquet(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"metadata table {file}: not a readable Parquet file: {error}") from error


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": lambda file: _read_delimited(file, ","),
    ".tsv": lambda file: _read_delimited(file, "\t"),
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}
