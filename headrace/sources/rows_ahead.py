"""Keeps rows that are decoded many at a time, and opened in an order that is known: a build has that of its shards."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, cast

_AHEAD_BYTES = 256 << 20
_BEHIND_BYTES = 32 << 20  # a slow thread may still open these, and tasks of one recording open it again

_Row: TypeAlias = tuple[str, int | None]
"""A file, and the number of a row."""


class ReadsAhead(Protocol):
    """A source, or the content of one, that makes use of the order in which recordings will be opened."""

    def will_open(self, recordings: Sequence[tuple[str, int]]) -> None:
        """Expect these recordings, by path and number of bytes, instead of those of an earlier call."""


def announce(source: object, recordings: Sequence[tuple[str, int]]) -> None:
    """Call `will_open` of a source that has it, unless there are no recordings."""
    if recordings and hasattr(source, "will_open"):  # `isinstance` does not see what `__getattr__` hands on
        cast("ReadsAhead", source).will_open(recordings)


class RowsAhead:
    """The values of rows that are opened next: at most 288 MB and one value. Calls must not overlap."""

    def __init__(self, rows: Iterable[tuple[_Row, int]] = ()) -> None:
        """Expect rows with their numbers of bytes."""
        self._kept: dict[tuple[_Row, tuple[int, int]], bytes | None] = {}
        self._positions: dict[_Row, int] = {}
        self._now = position = 0
        for row, num_bytes in rows:
            self._positions.setdefault(row, position)
            position += num_bytes

    def value(self, row: _Row, times: tuple[int, int], chunk: range, decode: Callable[[], Any]) -> bytes | None:
        """The value of a row of a file with these times; None if the row is not expected, or no longer.

        `decode` makes a sequence of the values of the rows of a chunk, of which the row is one.
        """
        if (row, times) not in self._kept and self._distance(row) >= -_BEHIND_BYTES:
            values, self._now = decode(), self._positions[row]
            self._kept = {key: value for key, value in self._kept.items() if self._is_near(key[0])}
            rows = (((row[0], number), number - chunk.start) for number in chunk)
            self._kept |= {(other, times): values[at] for other, at in rows if self._is_near(other)}
        return self._kept.get((row, times))

    def _is_near(self, row: _Row) -> bool:
        return -_BEHIND_BYTES <= self._distance(row) <= _AHEAD_BYTES

    def _distance(self, row: _Row) -> float:
        return self._positions.get(row, -math.inf) - self._now
