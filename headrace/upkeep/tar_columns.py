"""Makes the columns of the samples of one tar: the values of its JSON, text and class members, and facts of its index.

Types are those of the values in this tar; `common_kinds` and `as_kinds` bring the columns of several tars to one type.
"""

import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from headrace.errors import ConfigError, FormatError
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable, keys_digest, why_too_many
from headrace.format.indexes.index import ShardIndex
from headrace.format.tars.member_names import JSON_FIELD
from headrace.format.tars.tar import payload
from headrace.format.typed_json import json_object

VALUES_VERSION = 1
"""To be raised when members give other values than before: all tars of a set are then read again."""

_TEXTS = {"txt": "text", "transcript": "transcript", "text": "text"}
_CLASSES = ("cls", "cls2", "class", "count", "index", "inx", "id")  # members that WebDataset decodes as numbers
_WHOLE = re.compile(r"\s*[+-]?\d{1,4300}\s*")  # Python reads no longer one
_INT64 = range(-(1 << 63), 1 << 63)
_TOO_MANY = "the JSON of the samples has {}, and would get all as columns: index them with --into and without --columns"
Kinds = Mapping[tuple[bool, str], ColumnKind]
"""Whether a column is a fact, and its name → its type."""


def with_columns(
    file: BinaryIO, index: ShardIndex, split: str, *, reads_members: bool
) -> tuple[ShardIndex, ColumnTable]:
    """The columns of the samples of a tar, and its index with the checksums of the members that were read for them.

    Args:
        file: the tar.
        index: its index.
        split: the split that it belongs to.
        reads_members: whether JSON, text and class members become columns; otherwise there are facts only.

    Raises:
        FormatError: the JSON of a sample is not a JSON object, a text is not UTF-8, or there are too many columns.
    """
    crc32, rows = index.crc32.copy(), []
    # The last one that has a column counts: a member of its name, else the JSON, else the text called txt.
    wanted = [
        name for name in ("txt", JSON_FIELD, "transcript", "text", *_CLASSES) if reads_members and name in index.fields
    ]
    for number, key in enumerate(index.keys()):
        found: dict[str, Any] = {}
        for name in wanted:
            if (span := index.range_of(number, name)) is not None:
                blob = payload(file, span)
                crc32[number, index.fields.index(name)] = zlib.crc32(blob)
                found |= _values(blob, name, f"{index.shard}: {key}.{name}")
        rows.append(found)
    names = list({name: None for row in rows for name in row})
    if (why := why_too_many(names, sum(map(len, rows)), len(rows))) is not None:
        raise FormatError(f"{index.shard}: {_TOO_MANY.format(why)}")
    try:
        columns = (*_facts(index, split), *_columns(rows))
        keys = keys_digest(index.keys())
        "".join(column.spec.name for column in columns).encode()
    except ValueError as error:
        raise FormatError(f"{index.shard}: a key, a name or a value is not valid Unicode ({error})") from error
    return replace(index, crc32=crc32), ColumnTable(columns, len(index), keys, "")


def _values(blob: bytes, name: str, member: str) -> dict[str, Any]:
    """The values of one member by column."""
    try:
        if name == JSON_FIELD:
            return json_object(blob.decode("utf-8-sig"))
        text = blob.decode("utf-8-sig").rstrip("\r\n")
    except ValueError as error:
        kind = "a JSON object" if name == JSON_FIELD else "UTF-8"
        raise FormatError(
            f"{member} is not {kind} ({error}): correct the tar, or leave it out of the pattern"
        ) from error
    if name in _TEXTS:
        return {_TEXTS[name]: text}
    return {name: int(text) if _WHOLE.fullmatch(text) else text}


def _facts(index: ShardIndex, split: str) -> tuple[Column, ...]:
    rates, frames, channels = (array.tolist() for array in (index.sample_rate_hz, index.num_frames, index.num_channels))
    seconds = [n / rate if rate and n >= 0 else None for n, rate in zip(frames, rates, strict=True)]
    facts: dict[str, tuple[ColumnKind, list[Any]]] = {
        "key": (ColumnKind.STRING, index.keys()),
        "split": (ColumnKind.STRING, [split] * len(index)),
        "duration_seconds": (ColumnKind.FLOAT, seconds),
        "sample_rate_hz": (ColumnKind.INT, [rate or None for rate in rates]),
        "num_channels": (ColumnKind.INT, [number or None for number in channels]),
    }
    return tuple(Column.of(ColumnSpec(name, kind, is_fact=True), values) for name, (kind, values) in facts.items())


def _columns(rows: Sequence[Mapping[str, Any]]) -> Iterable[Column]:
    """The columns of these rows, by name."""
    for name in sorted({name for row in rows for name in row}):
        values = [None if _is_not_finite(value) else value for value in (row.get(name) for row in rows)]
        kind = _widest({_kind(value) for value in values if value is not None})
        yield Column.of(ColumnSpec(name, kind), [_as(kind, value) for value in values])


def _is_not_finite(value: object) -> bool:
    """Whether a value is NaN or an infinity, by which pandas and others write a value that is missing."""
    return isinstance(value, float) and not math.isfinite(value)


def _kind(value: object) -> ColumnKind:
    if isinstance(value, bool):
        return ColumnKind.BOOL
    if isinstance(value, int):
        return ColumnKind.INT if value in _INT64 else ColumnKind.STRING
    if isinstance(value, float):
        return ColumnKind.FLOAT
    return ColumnKind.STRING if isinstance(value, str) else ColumnKind.JSON


def _widest(kinds: set[ColumnKind]) -> ColumnKind:
    """The narrowest type that holds values of all these: numbers are floats, lists and objects JSON, all else text."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds == {ColumnKind.INT, ColumnKind.FLOAT}:
        return ColumnKind.FLOAT
    return ColumnKind.JSON if ColumnKind.JSON in kinds else ColumnKind.STRING


def _as(kind: ColumnKind, value: Any) -> Any:  # noqa: ANN401 - the user's values
    is_other = kind is ColumnKind.STRING and value is not None and not isinstance(value, str)
    return json.dumps(value) if is_other else value


def kinds_of(table: ColumnTable) -> dict[tuple[bool, str], ColumnKind | None]:
    """The type of each column of a tar; None for a column without values, which fits every type."""
    return {
        (column.spec.is_fact, column.spec.name): column.spec.kind
        if column.is_valid.any() or column.spec.is_fact
        else None
        for column in table.columns
    }


def common_kinds(found: Iterable[Mapping[tuple[bool, str], ColumnKind | None]]) -> dict[tuple[bool, str], ColumnKind]:
    """One type for each column of several tars, facts first, then by name. Raises `ConfigError` for too many."""
    kinds: dict[tuple[bool, str], set[ColumnKind]] = {}
    num_given = num_tars = 0
    for one in found:
        num_given, num_tars = num_given + len(one), num_tars + 1
        for name, kind in one.items():
            kinds.setdefault(name, set()).update(() if kind is None else (kind,))
    if (why := why_too_many([name for _, name in kinds], num_given, num_tars)) is not None:
        raise ConfigError(f"these tars: {_TOO_MANY.format(why)}")
    return {name: _widest(kinds[name]) for name in sorted(kinds, key=lambda name: (not name[0], name[1]))}


def as_kinds(table: ColumnTable, kinds: Kinds) -> ColumnTable:
    """The columns of a tar with these names and types; a column that it lacks is null."""
    there = {(column.spec.is_fact, column.spec.name): column for column in table.columns}
    columns = []
    for (is_fact, name), kind in kinds.items():
        spec, found = ColumnSpec(name, kind, is_fact), there.get((is_fact, name))
        if found is None or not found.is_valid.any():
            columns.append(Column.of(spec, [None] * len(table)))
        elif found.spec == spec:
            columns.append(found)
        else:
            columns.append(Column.of(spec, [_as(kind, value) for value in found.take(range(len(table)))]))
    return replace(table, columns=tuple(columns))
