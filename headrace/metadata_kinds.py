"""The kinds of value in a table of JSON Lines: each column must keep to one.

Owns that rule. A table has one type for a column; what makes one of several kinds turns numbers and lists into text.
"""

import json
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError

_KINDS: dict[type, str] = {
    str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"
}  # fmt: skip


def check_kinds(file: Path, texts: tuple[str, ...]) -> None:
    """Look at every line of a file of JSON Lines.

    All values of a column are text, numbers, true or false, lists, or objects; so are all elements of its lists, and
    all that its objects have under one name. Null fits each.

    Args:
        file: one JSON object per line; blank lines count for nothing.
        texts: columns that become text in any case: numbers, true and false count as such there.

    Raises:
        ConfigError: a line is no JSON object (names it), or a column is of two kinds (names column, kinds and lines).
    """
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ConfigError(f"metadata table {file}, line {number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise ConfigError(f"metadata table {file}, line {number}: expected one JSON object per line")
            for path, kind in _kinds(row, (), texts):
                before, first = seen.setdefault(path, (kind, number))
                if before != kind:
                    raise ConfigError(
                        f"metadata table {file}: column {_shown(path)} is {before} in line {first} and {kind} in line "
                        f"{number}; write all of it as one kind, or leave it null"
                    )


def _kinds(
    row: dict[str, Any], above: tuple[str, ...], texts: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], str]]:
    """Each value of an object, and what is in it: path and kind."""
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
    """Likewise the elements of a list; those of one type that hold nothing else are looked at once."""
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
