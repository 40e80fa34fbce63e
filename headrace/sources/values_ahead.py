"""Keeps values that are opened in a known order and decoded many at a time: `announce` and `ValuesAhead`.

A build opens recordings in the order of its shards. A source that decodes the neighbours of a recording with it keeps
those that are next.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, runtime_checkable

_AHEAD_BYTES = 256 << 20
_BEHIND_BYTES = 32 << 20  # a slow thread may still open these, and tasks of one recording open it again


@runtime_checkable
class ReadsAhead(Protocol):
    """A source, or the content of one, that makes use of the order in which recordings will be opened."""

    def will_open(self, recordings: Sequence[tuple[str, int]]) -> None:
        """Expect these recordings, by path and number of bytes, instead of those of an earlier call."""


def announce(source: object, recordings: Sequence[tuple[str, int]]) -> None:
    """Call `will_open` of a source that has it."""
    if isinstance(source, ReadsAhead):
        source.will_open(recordings)


class ValuesAhead:
    """The recordings that are opened next, at most 288 MB and one recording. Calls must not overlap."""

    def __init__(self, recordings: Sequence[tuple[str, int]]) -> None:
        """Expect recordings, see `ReadsAhead`. One may come several times."""
        self._positions: dict[str, list[int]] = {}
        self._now = position = 0
        for path, num_bytes in recordings:
            self._positions.setdefault(path, []).append(position)
            position += num_bytes
        self._kept: dict[tuple[str, Hashable], bytes] = {}

    def value(
        self, path: str, stamp: Hashable, decode: Callable[[], Iterable[tuple[str, Callable[[], bytes]]]]
    ) -> bytes | None:
        """The bytes of a recording; None if it is not expected, or no longer.

        Args:
            path: the recording.
            stamp: the state of its file: bytes of another one are not given.
            decode: gives this recording and others that are decoded with it, each as a function.
        """
        if (path, stamp) not in self._kept:
            if (position := self._next(path)) is None:
                return None
            self._now = position
            self._kept = {key: value for key, value in self._kept.items() if self._is_near(key[0])}
            self._kept |= {(other, stamp): make() for other, make in decode() if self._is_near(other)}
        return self._kept[path, stamp]

    def _next(self, path: str) -> int | None:
        oldest = self._now - _BEHIND_BYTES
        return next((position for position in self._positions.get(path, ()) if position >= oldest), None)

    def _is_near(self, path: str) -> bool:
        position = self._next(path)
        return position is not None and position <= self._now + _AHEAD_BYTES
