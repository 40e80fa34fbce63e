"""Reads a table of JSON Lines and rejects columns whose values have different JSON types.

A column of a table has one type. Without the check, polars would turn the numbers and lists of a mixed column into
text.
"""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from headrace.errors import ConfigError

_KINDS: dict[type, str] = {
    str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"
}  # fmt: skip


def read_json_lines(file: Path, name: str, texts: tuple[str, ...]) -> pl.DataFrame:
    """Read a table of JSON Lines.

    Args:
        file: one JSON object per line; blank lines are skipped.
        name: name of the file in error messages.
        texts: columns that become text afterwards; numbers and booleans may be mixed with text there.

    Raises:
        ConfigError: a line is not a JSON object, or the values of a column have different kinds.
    """
    _check_kinds(file, name, texts)
    with contextlib.suppress(pl.exceptions.PolarsError):
        return pl.read_ndjson(file, infer_schema_length=None)
    try:  # Python's json accepts NaN and infinities, and writes them; polars rejects them
        return pl.read_ndjson(io.BytesIO(_plain_json_lines(file)), infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{name}: {error}") from error


def _plain_json_lines(file: Path) -> bytes:
    """The same rows without blank lines, and with null for NaN and infinities, which are not valid JSON."""
    with file.open("rb") as lines:
        rows = (json.loads(line, parse_constant=lambda _: None) for line in lines if line.strip())
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _check_kinds(file: Path, name: str, texts: tuple[str, ...]) -> None:
    """Check that each column of a JSON Lines file has values of one kind.

    The kinds are text, number, boolean, list and object. The rule also holds for the elements of a column's lists, and
    for each name inside its objects. Null may be anywhere.

    Args:
        file: one JSON object per line; blank lines are skipped.
        name: name of the file in error messages.
        texts: columns that become text in any case; numbers and booleans count as text there.

    Raises:
        ConfigError: a line is not a JSON object, or a column has two kinds; the message names the lines.
    """
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ConfigError(f"{name}, line {number}: not valid JSON: {error}") from error
            if not isinstance(row, dict):
                raise ConfigError(f"{name}, line {number}: expected one JSON object per line")
            for path, kind in _kinds(row, (), texts):
                before, first = seen.setdefault(path, (kind, number))
                if before != kind:
                    raise ConfigError(
                        f"{name}: column {_shown(path)} is {before} in line {first} and {kind} in line "
                        f"{number}; write all of its values as one kind, or null"
                    )


def _kinds(
    row: dict[str, Any], above: tuple[str, ...], texts: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], str]]:
    """Path and kind of each value of an object, nested values included."""
    found: list[tuple[tuple[str, ...], str]] = []
    for name, value in row.items():
        if value is None:
            continue
        path, kind = (*above, name), _KINDS[type(value)]
        found.append((path, "text" if name in texts and not isinstance(value, list | dict) else kind))
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


def _shown(path: tuple[str, ...]) -> str:
    return repr(".".join(path).replace(".[]", "[]"))
