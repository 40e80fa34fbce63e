"""Reads a table of JSON Lines.

A column of a table has one type, that of all of its cells, so the file is read several times, a piece at a time: first
by `json_kinds`, which finds what polars would make something else of.
"""

import contextlib
import io
import json
import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.json_kinds import JsonKinds, kinds_of_lines
from headrace.catalog.tables.row_origins import LINE
from headrace.config.tables import ColumnType
from headrace.errors import ConfigError
from headrace.format.typed_json import AS_JSON, json_value
from headrace.stores.temporary_room import temporary_room

_PIECE_BYTES = 8 << 20
_LINE_BYTES = 64  # of a Python object, besides its content


@dataclass(frozen=True, slots=True)
class JsonLinesTable:
    """A `MetadataTable` that was read from a file of JSON Lines.

    Attributes:
        schema: names and types of the columns.
        pieces: the rows in order, with a column `LINE`.
        unit: what the numbers of rows count: `line` or `row`.
    """

    schema: pl.Schema
    pieces: PartTables = field(repr=False)
    unit: str = "line"

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return (rows for rows, _ in self.numbered())

    def numbered(self) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """See `NumberedTable`."""
        return ((piece.drop(LINE), piece[LINE]) for piece in self.pieces)


def read_json_lines(  # noqa: PLR0913 - a file, its columns, and the words of messages
    file: Path,
    name: str,
    texts: Sequence[str],
    types: Mapping[str, ColumnType] | None = None,
    *,
    unit: str = "line",
    named: Callable[[int], str] | None = None,
    mixed: Collection[str] = (),
) -> JsonLinesTable:
    """Read a table of JSON Lines, piece by piece. What does not fit in memory is kept in a temporary file.

    Columns are in the order in which they first appear, the names in objects in alphabetical order. An object that has
    no name in any row is null, because Parquet has no type for it. A file without rows has no columns. An object has
    the names of those in all rows, with null. If these are more than 200, such as words with their counts, the column
    has what `as_json` makes of its values, which `metadata_columns` reads.

    Args:
        file: one JSON object per line; blank lines are skipped.
        name: name of the file in error messages.
        texts: columns that become text afterwards; numbers and booleans may be mixed with text there.
        types: column → the type that it gets afterwards, which its values must fit.
        unit: what messages call a line: `line`, or `row` if the lines are made from something else.
        named: number of a line → its name in messages; None for unit and number.
        mixed: columns whose values may have several kinds; then they become text, which is JSON for what is no text.

    Raises:
        ConfigError: a line is not a JSON object, there are too many columns, an object has a name twice, the
            values of a column have different kinds, or a value does not fit the declared type of its column.
        StorageError: the temporary folder is full.
    """
    seen = kinds_of_lines(file, name, texts, types or {}, named or (lambda number: f"{unit} {number}"), mixed)
    try:
        is_plain = not (seen.of_several_kinds or seen.wide or seen.has_empty_objects())
        parsed = _unnamed if not seen.columns else _parsed if is_plain else _parsed_by_python
        schema, pieces = parsed(file, seen)
        # polars orders more than 32 names by a random hash: in each process differently.
        ordered = pl.Schema({column: in_order(schema[column]) for column in seen.columns})
        kept = PartTables()
        with file.open("rb") as lines:
            numbers = (number for number, line in enumerate(lines, 1) if line.strip())
            for piece in pieces:
                of_piece = pl.Series(LINE, list(islice(numbers, piece.height)), dtype=pl.Int64)
                kept.append(piece.with_columns(of_piece).select(*ordered, LINE).cast(ordered))
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{name}: {error}") from error
    return JsonLinesTable(ordered, kept, unit)


def _unnamed(file: Path, _seen: JsonKinds) -> tuple[pl.Schema, Iterable[pl.DataFrame]]:
    """The table of a file without a name in any row, or without rows: polars reads neither."""
    return pl.Schema(), (pl.DataFrame(height=len(lines)) for lines in _in_pieces(file))


def _parsed(file: Path, seen: JsonKinds) -> tuple[pl.Schema, Iterable[pl.DataFrame]]:
    """Types of the columns, and the table in pieces."""
    with contextlib.suppress(pl.exceptions.PolarsError):
        schema, pieces = _inferred(file, seen), PartTables()
        for lines in _in_pieces(file):
            pieces.append(pl.read_ndjson(io.BytesIO(b"".join(lines)), schema=schema))
        return schema, pieces
    return _parsed_by_python(file, seen)


def _inferred(file: Path | str, seen: JsonKinds) -> pl.Schema:
    """The types that all rows have together. The file is mapped, and no table is made."""
    schema = pl.scan_ndjson(file, infer_schema_length=None).collect_schema()
    return pl.Schema({name: _with_numbers(dtype, (name,), seen) for name, dtype in schema.items()})


def _with_numbers(dtype: pl.DataType, path: tuple[str, ...], seen: JsonKinds) -> pl.DataType:
    """A type whose numbers are not the texts that polars makes of 64 bits and more in one list."""
    if isinstance(dtype, pl.List):
        return pl.List(_with_numbers(dtype.inner, (*path, "[]"), seen))  # type: ignore[arg-type]  # as in `in_order`
    if isinstance(dtype, pl.Struct):
        fields = {one.name: _with_numbers(one.dtype, (*path, one.name), seen) for one in dtype.fields}  # type: ignore[arg-type]
        return pl.Struct(fields)
    return pl.Int128() if dtype == pl.String and len(path) > 1 and seen.are_numbers(path) else dtype


def _in_pieces(file: Path) -> Iterator[list[bytes]]:
    """The lines of a file that are not blank, some at a time."""
    piece: list[bytes] = []
    num_bytes = 0
    with file.open("rb") as lines:
        for line in lines:
            if line.strip():
                piece.append(line)
                num_bytes += len(line) + _LINE_BYTES
                if num_bytes >= _PIECE_BYTES:
                    yield piece
                    piece, num_bytes = [], 0
    if piece:
        yield piece


def _parsed_by_python(file: Path, seen: JsonKinds) -> tuple[pl.Schema, Iterable[pl.DataFrame]]:
    """The table of a file with NaN, infinities or empty objects: Python writes them, but polars rejects them.

    NaN and infinities are values of float columns, as in the other formats; in lists and objects they are null, as in
    the JSON of a sample. Values of columns of several kinds become values of one, and those of wide ones their JSON.
    """
    special = set[str]()
    with temporary_room("a table"), tempfile.NamedTemporaryFile(suffix=".jsonl") as plain:
        for lines in _in_pieces(file):
            text, cells = _without_special(lines, seen)
            special.update(cells)
            plain.write(text)
        plain.flush()
        schema = _inferred(plain.name, seen)
    floats = {name for name in special if schema[name].is_numeric() or schema[name] == pl.Null}

    def pieces() -> Iterator[pl.DataFrame]:
        for lines in _in_pieces(file):
            text, cells = _without_special(lines, seen)
            table = pl.read_ndjson(io.BytesIO(text), schema=schema)
            yield table.with_columns(
                table[name].cast(pl.Float64).scatter(list(cells.get(name, {})), list(cells.get(name, {}).values()))
                for name in floats
            )

    return pl.Schema(schema | dict.fromkeys(floats, pl.Float64())), pieces()


def _without_special(lines: Iterable[bytes], seen: JsonKinds) -> tuple[bytes, dict[str, dict[int, float]]]:
    """Lines with null for what polars rejects, and their NaN and infinities: column → row → value."""
    text, special = io.BytesIO(), dict[str, dict[int, float]]()
    for number, line in enumerate(lines):
        row = json_value(line)
        row |= {name: of_one_kind(row[name]) for name, of_one_kind in seen.of_several_kinds.items() if name in row}
        row |= {column: as_json(row[column]) for column in seen.wide & row.keys()}
        for column, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                special.setdefault(column, {})[number] = value
        text.write(json.dumps({column: plain(value) for column, value in row.items()}).encode() + b"\n")
    return text.getvalue(), special


def as_json(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """A value, or each element of a list, as an object of its JSON alone."""
    if isinstance(value, list):
        return [None if one is None else _as_json(one) for one in value]
    return None if value is None else _as_json(value)


def _as_json(value: Any) -> dict[str, str]:  # noqa: ANN401 - any value of JSON
    return {AS_JSON: json.dumps(value, sort_keys=True)}


def has_json(dtype: pl.DataType) -> bool:
    """Whether a type is that of what `as_json` returns, or also has the names of objects in other files."""
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    return isinstance(inner, pl.Struct) and any(field.name == AS_JSON for field in inner.fields)


def plain(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Replace empty objects, NaN and infinities in a value by null."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()} or None
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def in_order(dtype: pl.DataType) -> pl.DataType:
    """The type with the names of objects in alphabetical order; a cast matches them by name."""
    if isinstance(dtype, pl.List):
        return pl.List(in_order(dtype.inner))  # type: ignore[arg-type]  # polars declares a class or an instance
    if isinstance(dtype, pl.Struct):
        fields = sorted(dtype.fields, key=lambda field: field.name)
        return pl.Struct({field.name: in_order(field.dtype) for field in fields})  # type: ignore[arg-type]  # as above
    return dtype
