"""Reads a table of JSON Lines and rejects columns whose values have different JSON types.

A column of a table has one type, that of all of its cells, so the file is read several times, a piece at a time.
Without the check, polars would turn the numbers and lists of a mixed column into text.
"""

import contextlib
import io
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.tables.buckets import PartTables
from headrace.catalog.tables.declared_types import fits, misfit
from headrace.catalog.tables.row_origins import LINE
from headrace.config.tables import ColumnType
from headrace.errors import ConfigError
from headrace.format.beside.column_table import why_too_many
from headrace.format.typed_json import AS_JSON, json_value
from headrace.stores.temporary_room import temporary_room

_PIECE_BYTES = 8 << 20
_LINE_BYTES = 64  # of a Python object, besides its content
_MOST_NAMES = 200  # of the objects of one place: the columns of a table, of which each row has all
_MOST_NAMES_OF_A_COLUMN = 2000

_NULL = ""
_KINDS: dict[type, str] = {
    str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"
}  # fmt: skip


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
    seen = _seen(file, name, texts, types or {}, named or (lambda number: f"{unit} {number}"), mixed)
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


def _unnamed(file: Path, _seen: "_Seen") -> tuple[pl.Schema, Iterable[pl.DataFrame]]:
    """The table of a file without a name in any row, or without rows: polars reads neither."""
    return pl.Schema(), (pl.DataFrame(height=len(lines)) for lines in _in_pieces(file))


def _parsed(file: Path, seen: "_Seen") -> tuple[pl.Schema, Iterable[pl.DataFrame]]:
    """Types of the columns, and the table in pieces."""
    with contextlib.suppress(pl.exceptions.PolarsError):
        schema, pieces = _inferred(file, seen), PartTables()
        for lines in _in_pieces(file):
            pieces.append(pl.read_ndjson(io.BytesIO(b"".join(lines)), schema=schema))
        return schema, pieces
    return _parsed_by_python(file, seen)


def _inferred(file: Path | str, seen: "_Seen") -> pl.Schema:
    """The types that all rows have together. The file is mapped, and no table is made."""
    schema = pl.scan_ndjson(file, infer_schema_length=None).collect_schema()
    return pl.Schema({name: _with_numbers(dtype, (name,), seen) for name, dtype in schema.items()})


def _with_numbers(dtype: pl.DataType, path: tuple[str, ...], seen: "_Seen") -> pl.DataType:
    """A type whose numbers are not the texts that polars makes of 64 bits and more in one list."""
    if isinstance(dtype, pl.List):
        return pl.List(_with_numbers(dtype.inner, (*path, "[]"), seen))  # type: ignore[arg-type]  # as in `in_order`
    if isinstance(dtype, pl.Struct):
        fields = {one.name: _with_numbers(one.dtype, (*path, one.name), seen) for one in dtype.fields}  # type: ignore[arg-type]
        return pl.Struct(fields)
    are_numbers = len(path) > 1 and seen.kinds.get(path, ("",))[0] == _KINDS[int]
    return pl.Int128() if dtype == pl.String and are_numbers else dtype


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


def _parsed_by_python(file: Path, seen: "_Seen") -> tuple[pl.Schema, Iterable[pl.DataFrame]]:
    """The table of a file with NaN, infinities or empty objects: Python writes them, but polars rejects them.

    NaN and infinities are values of float columns, as in the other formats; in lists and objects they are null, as in
    the JSON of a sample. Values of columns of several kinds become values of one, and those of wide ones
    their JSON.
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


def _without_special(lines: Iterable[bytes], seen: "_Seen") -> tuple[bytes, dict[str, dict[int, float]]]:
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


def _as_text(value: Any) -> str | None:  # noqa: ANN401 - any value of JSON
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _as_flag(value: Any) -> bool | None:  # noqa: ANN401 - true, false, 1, 0 or null
    return value if value is None else bool(value)


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


@dataclass(frozen=True, slots=True)
class _Seen:
    """Columns and kinds of values in the rows of a table.

    Attributes:
        columns: names of the columns, in the order in which they first appear.
        kinds: where a value is, for example `("words", "[]", "text")` → its kind, and the first line that has it.
        of_several_kinds: columns whose values have several kinds, which they may, or of text, whose numbers become text
            one by one → what makes a value one of the same kind.
        wide: columns with objects that have more than 200 names together, or 2,000 at all places.
        never_wide: columns whose objects have any number of names.
        num_names: number of names of the objects at a place, and under a name that is empty those of a column.
    """

    columns: dict[str, None] = field(default_factory=dict)
    kinds: dict[tuple[str, ...], tuple[str, int]] = field(default_factory=dict)
    of_several_kinds: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    never_wide: set[str] = field(default_factory=set)
    num_names: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def conflict(self, path: tuple[str, ...], kind: str, number: int) -> tuple[str, int] | None:
        """Note a value. Returns kind and line of an earlier one at its place if that is another kind."""
        column, found = path[0], self.kinds.get(path)
        if len(path) > 1 and column in self.wide:
            return None
        if found is None and len(path) > 1 and column not in self.never_wide:
            for place in (path[:-1], (column, "")):
                self.num_names[place] += 1
            if self.num_names[path[:-1]] > _MOST_NAMES or self.num_names[column, ""] > _MOST_NAMES_OF_A_COLUMN:
                self.wide.add(column)
        if found is None or found[0] == _NULL:
            self.kinds[path] = (kind, number)
            return None
        return None if kind in {found[0], _NULL} else found

    def has_empty_objects(self) -> bool:
        """Whether a place has objects without any name, in every row."""
        named = {path[:-1] for path, (kind, _) in self.kinds.items() if kind != _NULL}
        return any(kind == _KINDS[dict] and path not in named for path, (kind, _) in self.kinds.items())


def check_columns(names: Sequence[str], num_given: int, num_rows: int, place: str) -> None:
    """Raise `ConfigError` for too many columns. See `why_too_many`."""
    if (why := why_too_many(names, num_given, num_rows)) is not None:
        raise ConfigError(
            f"{place}: {why}, and would get all as columns: write values under names of the row's own, such as counts "
            "of words, as one object in one column"
        )


def parsed_json(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:  # noqa: ANN401 - any value of JSON
    """A value of JSON. Raises `ValueError` if it is not valid, or has an object with one name twice.

    Args:
        text: the JSON.
        parse_constant: what to do with NaN, Infinity and -Infinity; None reads them as numbers.
    """
    return json_value(text, object_pairs_hook=_object, parse_constant=parse_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice; which value counts is not defined: keep one")
    return found


def _seen(  # noqa: PLR0913, PLR0917 - as above
    file: Path,
    name: str,
    texts: Sequence[str],
    types: Mapping[str, ColumnType],
    named: Callable[[int], str],
    mixed: Collection[str],
) -> _Seen:
    """The columns of a JSON Lines file, and the kinds of their values: one for each column.

    The kinds are text, number, boolean, list and object. The rule also holds for the elements of a column's lists, and
    for each name inside its objects. Null may be anywhere.

    Args:
        file: one JSON object per line; blank lines are skipped.
        name: name of the file in error messages.
        texts: columns that become text in any case; numbers and booleans count as text there.
        types: column → its declared type.
        named: number of a line → its name in messages.
        mixed: see `read_json_lines`.

    Raises:
        ConfigError: see `read_json_lines`; the message names the lines.
    """
    texts = (*texts, *(column for column, kind in types.items() if kind == ColumnType.TEXT))
    may_differ: dict[str, Callable[[Any], Any]] = {name: _as_flag for name in types if types[name] == ColumnType.BOOL}
    may_differ |= dict.fromkeys(mixed, _as_text)
    seen, of_texts = _Seen(), {column: set[type]() for column in texts}
    faults: dict[tuple[str, ...], ConfigError] = {}
    seen.never_wide.update(column for column, kind in types.items() if kind == ColumnType.INTERVALS)

    num_rows = num_given = 0

    def place(number: int) -> str:
        return f"{name}, {named(number)}"

    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row, found = _parsed_row(line, partial(place, number), texts, types)
            seen.columns.update(dict.fromkeys(row))
            num_rows, num_given = num_rows + 1, num_given + len(row)
            for path, kind in found:
                conflict = seen.conflict(path, kind, number)
                if conflict is not None and path[0] in may_differ:
                    seen.of_several_kinds[path[0]] = may_differ[path[0]]
                elif conflict is not None and path not in faults:
                    before, first = conflict
                    faults[path] = ConfigError(
                        f"{name}: column {shown_place(path)} is {before} in {named(first)} and {kind} in "
                        f"{named(number)}; write all of its values as one kind, or null{_way_out(path, {before, kind})}"
                    )
            for column in of_texts.keys() & row.keys():
                of_texts[column].add(type(row[column]))
    check_columns(list(seen.columns), num_given, num_rows, name)
    if fault := next((faults[path] for path in faults if len(path) == 1 or path[0] not in seen.wide), None):
        raise fault
    # polars would write 1 beside 2.5 as 1.0, and rejects true beside 1.
    numbers = (name for name, kinds in of_texts.items() if float in kinds or {bool, int} <= kinds)
    seen.of_several_kinds.update(dict.fromkeys(numbers, _as_text))
    seen.wide.difference_update(seen.of_several_kinds)
    return seen


def _parsed_row(
    line: bytes, place: Callable[[], str], texts: Sequence[str], types: Mapping[str, ColumnType]
) -> tuple[dict[str, Any], list[tuple[tuple[str, ...], str]]]:
    """The object of a line, and path and kind of its values. Raises `ConfigError`, see `read_json_lines`."""
    try:
        row = parsed_json(line)
        found = _kinds(row, (), texts) if isinstance(row, dict) else None
        if b"\\ud" in line.lower():
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{place()}: half of a surrogate pair ({error.object[error.start]!r}), which is not a "
            "character; write the text again"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{place()}: not valid JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{place()}: lists or objects are nested too deeply") from error
    if found is not None and b"\\u0000" in line and any(AS_JSON in path for path, _ in found):
        raise ConfigError(f"{place()}: the name {AS_JSON!r} is Headrace's own: write another one")
    if found is None:
        raise ConfigError(f"{place()}: expected one JSON object per line, or an array of objects")
    for column in types.keys() & row.keys():
        if not fits(row[column], types[column]):
            raise misfit(place(), column, row[column], types[column])
    return row, found


def _kinds(row: dict[str, Any], above: tuple[str, ...], texts: Sequence[str] = ()) -> list[tuple[tuple[str, ...], str]]:
    """Path and kind of each value of an object, nested values included."""
    found: list[tuple[tuple[str, ...], str]] = []
    for name, value in row.items():
        path, kind = (*above, name), _NULL if value is None else _KINDS[type(value)]
        found.append((path, "text" if name in texts and not isinstance(value, list | dict | None) else kind))
        if isinstance(value, dict):
            found += _kinds(value, path)
        elif isinstance(value, list):
            found += _element_kinds(value, path)
    return found


def _element_kinds(values: list[Any], above: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
    """Path and kind of the elements of a list. Elements that are not lists or objects are examined once per type."""
    path = (*above, "[]")
    types = dict.fromkeys(map(type, values))
    found = [(path, _KINDS[kind]) for kind in types if kind in _KINDS]
    if dict not in types and list not in types:
        return found
    for value in values:
        if isinstance(value, dict):
            found += _kinds(value, path)
        elif isinstance(value, list):
            found += _element_kinds(value, path)
    return found


def _way_out(path: tuple[str, ...], kinds: set[str]) -> str:
    """Way to keep values of these kinds as they are, as the end of a message; empty without one."""
    if len(path) > 1 or kinds & {_KINDS[list], _KINDS[dict]}:
        return ""
    name = path[0] if path[0].isidentifier() else json.dumps(path[0], ensure_ascii=False)
    return f", or declare that all are text, `types: {{{name}: text}}` of the table (source.table)"


def shown_place(path: tuple[str, ...]) -> str:
    """A place in a column, such as `("words", "[]", "text")`, as messages name it."""
    return repr(".".join(path).replace(".[]", "[]"))
