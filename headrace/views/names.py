"""Finds the column that a name in a view means: a user's column, a fact of the catalog, or a column of another set."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from headrace.errors import ConfigError
from headrace.format.beside.column_table import ColumnSpec
from headrace.views.sql import column_name

METADATA = "metadata"
"""The set with the columns of the user's table, and the facts."""
FACT = "fact"
"""The prefix that means a fact."""


class NoColumnError(ConfigError):
    """A name in a view is not that of a column."""


@dataclass(frozen=True, slots=True)
class MeantColumn:
    """A column that a name means.

    Attributes:
        set: name of its set.
        spec: its name and type in the set.
    """

    set: str
    spec: ColumnSpec


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns that a view can name.

    Attributes:
        sets: name of each set → its columns.
    """

    sets: Mapping[str, Sequence[ColumnSpec]]

    def meant_by(self, names: Iterable[tuple[str, ...]], what: str) -> dict[tuple[str, ...], MeantColumn]:
        """The column that each name, by its parts, means. Raises as `meant`."""
        return {parts: self.meant(parts, what) for parts in names}

    def meant(self, parts: Sequence[str], what: str) -> MeantColumn:
        """The column that a name means.

        A name without a prefix means the column of the user's table; if that has none of this name, the fact; if there
        is no such fact, the column of the one set that has it.

        Args:
            parts: the parts of the name.
            what: where the name is written, for messages: `where 'snr > 20'`.

        Raises:
            NoColumnError: there is no such column.
            ConfigError: several sets have it.
        """
        if len(parts) == 1:
            return self._bare(parts[0], what)
        if len(parts) == 2:
            found = self._of_set(*parts)
            if found is not None:
                return found
            if parts[0] not in {FACT, METADATA, *self.sets}:
                raise NoColumnError(
                    f"{what}: there is no set of columns {parts[0]!r}; there are {', '.join([FACT, *self.sets])}"
                )
        raise NoColumnError(f"{what}: no column {column_name(*parts)}{self._close(parts[-1])}")

    def _bare(self, name: str, what: str) -> MeantColumn:
        found = self._metadata(name, is_fact=False) or self._metadata(name, is_fact=True)
        if found is not None:
            return found
        others = [
            MeantColumn(set_name, spec)
            for set_name, specs in self.sets.items()
            if set_name != METADATA
            for spec in specs
            if spec.name == name
        ]
        if len(others) > 1:
            spellings = " or ".join(column_name(other.set, name) for other in others)
            raise ConfigError(f"{what}: several sets have a column {name!r}: write {spellings}")
        if not others:
            raise NoColumnError(f"{what}: no column {column_name(name)}{self._close(name)}")
        return others[0]

    def _of_set(self, prefix: str, name: str) -> MeantColumn | None:
        if prefix == FACT:
            return self._metadata(name, is_fact=True)
        if prefix == METADATA:
            return self._metadata(name, is_fact=False) or self._metadata(name, is_fact=True)
        specs = self.sets.get(prefix, ())
        return next((MeantColumn(prefix, spec) for spec in specs if spec.name == name), None)

    def _metadata(self, name: str, *, is_fact: bool) -> MeantColumn | None:
        specs = self.sets.get(METADATA, ())
        return next(
            (MeantColumn(METADATA, spec) for spec in specs if (spec.name, spec.is_fact) == (name, is_fact)), None
        )

    def _close(self, name: str) -> str:
        """The end of an error for an unknown column: similar names, or all."""
        known: dict[str, list[str]] = {}
        for set_name, specs in self.sets.items():
            for spec in specs:
                known.setdefault(spec.name, []).append(set_name)
        close = get_close_matches(name, known, 3) or get_close_matches(name.lower(), known, 3)
        if close:
            shown = ", ".join(f"{column_name(found)} ({', '.join(dict.fromkeys(known[found]))})" for found in close)
            return f"; did you mean {shown}? A text is written in single quotation marks"
        listed = ", ".join(map(column_name, sorted(known))) or "none: build the columns first"
        return f"; there are {listed}. A text is written in single quotation marks"
