"""Finds the columns and the kinds of values in the rows of JSON Lines, and rejects columns of several kinds.

Without the check, polars would turn the numbers and lists of a mixed column into text.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from headrace.catalog.tables.declared_types import fits, misfit
from headrace.config.tables import ColumnType
from headrace.errors import ConfigError
from headrace.format.beside.column_table import why_too_many
from headrace.format.typed_json import AS_JSON, strict_json

_MOST_NAMES = 200  # of the objects of one place: the columns of a table, of which each row has all
_MOST_NAMES_OF_A_COLUMN = 2000

_NULL = ""
_KINDS: dict[type, str] = {
    str: "text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class JsonKinds:
    """Columns and kinds of values in the rows of a table.

    Attributes:
        columns: names of the columns, in the order in which they first appear.
        kinds: where a value is, for example `("words", "[]", "text")` → its kind, and the first line that has it.
        of_several_kinds: columns whose values have several kinds, which they may, or of text, whose numbers become text
            one by one → what makes a value one of the same kind.
        wide: columns with objects that have more than 200 names together, or 2,000 at all places.
        never_wide: columns whose objects have any number of names.
        num_names: place → number of names of its objects.
        num_all_names: column → number of names at all of its places.
    """

    columns: dict[str, None] = field(default_factory=dict)
    kinds: dict[tuple[str, ...], tuple[str, int]] = field(default_factory=dict)
    of_several_kinds: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    wide: set[str] = field(default_factory=set)
    never_wide: frozenset[str] = frozenset()
    num_names: Counter[tuple[str, ...]] = field(default_factory=Counter)
    num_all_names: Counter[str] = field(default_factory=Counter)

    def conflict(self, path: tuple[str, ...], kind: str, number: int) -> tuple[str, int] | None:
        """Note a value. Returns kind and line of an earlier one at its place if that is another kind."""
        column, found = path[0], self.kinds.get(path)
        if len(path) > 1 and column in self.wide:
            return None
        if found is None and len(path) > 1 and column not in self.never_wide:
            place = path[:-1]
            self.num_names[place] += 1
            self.num_all_names[column] += 1
            if self.num_names[place] > _MOST_NAMES or self.num_all_names[column] > _MOST_NAMES_OF_A_COLUMN:
                self.wide.add(column)
        if found is None or found[0] == _NULL:
            self.kinds[path] = (kind, number)
            return None
        return None if kind in {found[0], _NULL} else found

    def are_numbers(self, path: tuple[str, ...]) -> bool:
        """Whether all values at a place are numbers."""
        return path in self.kinds and self.kinds[path][0] == _KINDS[int]

    def has_empty_objects(self) -> bool:
        """Whether a place has objects without any name, in every row."""
        named = {path[:-1] for path, (kind, _) in self.kinds.items() if kind != _NULL}
        return any(kind == _KINDS[dict] and path not in named for path, (kind, _) in self.kinds.items())


def kinds_of_lines(  # noqa: PLR0913, PLR0917 - a file, its columns, and the words of messages
    file: Path,
    name: str,
    texts: Sequence[str],
    types: Mapping[str, ColumnType],
    named: Callable[[int], str],
    mixed: Collection[str],
) -> JsonKinds:
    """The columns of a JSON Lines file, and the kinds of their values: one for each column.

    The kinds are text, number, boolean, list and object. The rule also holds for the elements of a column's lists, and
    for each name inside its objects. Null may be anywhere.

    Args:
        file: one JSON object per line; blank lines are skipped.
        name: name of the file in error messages.
        texts: columns that become text in any case; numbers and booleans count as text there.
        types: column → its declared type.
        named: number of a line → its name in messages.
        mixed: columns that become text if their values have several kinds.

    Raises:
        ConfigError: a line is not a JSON object, an object has a name twice, there are too many columns, or the
            values of a column have different kinds or do not fit its declared type; the message names the lines.
    """
    texts = (*texts, *(column for column, kind in types.items() if kind == ColumnType.TEXT))
    may_differ: dict[str, Callable[[Any], Any]] = {name: _as_flag for name in types if types[name] == ColumnType.BOOL}
    may_differ |= dict.fromkeys(mixed, _as_text)
    of_texts = {column: set[type]() for column in texts}
    seen = JsonKinds(never_wide=frozenset(name for name in types if types[name] == ColumnType.INTERVALS))
    faults: dict[tuple[str, ...], ConfigError] = {}
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
        row = strict_json(line)
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


def check_columns(names: Sequence[str], num_given: int, num_rows: int, place: str) -> None:
    """Raise `ConfigError` for too many columns. See `why_too_many`."""
    if (why := why_too_many(names, num_given, num_rows)) is not None:
        raise ConfigError(
            f"{place}: {why}, and would get all as columns: write values under names of the row's own, such as counts "
            "of words, as one object in one column"
        )


def _as_text(value: Any) -> str | None:  # noqa: ANN401 - any value of JSON
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _as_flag(value: Any) -> bool | None:  # noqa: ANN401 - true, false, 1, 0 or null
    return value if value is None else bool(value)
