"""Finds the shards of which the cache has files: from the name of a file to the shard of a stream.

Names of Headrace's shards have split, bucket and sequence number, by which the tables of snapshots are sorted. So a
million shards need no dictionary of names. Other names are known once this process has used them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FormatError
from headrace.format.manifests.manifests import parsed_name
from headrace.streaming.shards.window_shards import NumberedShards

_MOST_KEPT = 100_000

ShardOfStream = tuple[int, int]
"""Number of a stream, and number of a shard among the stream's own."""


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The shards of a snapshot, and the stream's own shards that have the same samples.

    Attributes:
        stream: number of the stream.
        splits: names of splits; their places are part of `places`.
        shards: the shards.
        places: of `shards`, ascending, see `SnapshotShards.places`.
        own_places: of the stream's own shards; the same array if these are `shards`.
    """

    stream: int
    splits: tuple[str, ...]
    shards: NumberedShards
    places: NDArray[np.int64]
    own_places: NDArray[np.int64]

    @classmethod
    def of(cls, stream: int, own: NumberedShards, shards: NumberedShards) -> "_Table":
        """The table of shards that are the stream's own, or joined to them."""
        splits = sorted({*own.splits, *shards.splits})
        own_places = own.places(splits)
        return cls(stream, tuple(splits), shards, own_places if own is shards else shards.places(splits), own_places)

    def find(self, name: str) -> ShardOfStream | None:
        """The shard of the stream that has the samples of this file, if the file is one of these shards."""
        try:
            parts = parsed_name(name)
            place = self.splits.index(parts["split"]) << 55 | int(parts["bucket"]) << 31 | int(parts["sequence"])
        except (FormatError, ValueError):
            return None
        number, own = _at(self.places, place), _at(self.own_places, place)
        if number is None or own is None or self.shards.name(number) != name:
            return None
        return self.stream, own


class ShardNames:
    """The shards of some streams by the names of their files in a cache; not safe for threads."""

    def __init__(self, tables: Iterable[tuple[int, NumberedShards, NumberedShards]]) -> None:
        """Know shards by stream, the stream's own shards, and these or others that are joined to them."""
        self._tables = [_Table.of(*table) for table in tables]
        self._found: dict[str, list[ShardOfStream]] = {}
        self._learnt: dict[str, ShardOfStream] = {}

    def learn(self, name: str, shard: ShardOfStream) -> None:
        """Remember the name of a shard that is in no snapshot."""
        self._learnt[name] = shard

    def find(self, name: str) -> list[ShardOfStream]:
        """The shards that need this file: of each stream at most one; empty for a file of others."""
        if name in self._learnt:
            return [self._learnt[name]]
        if name not in self._found:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[name] = [found for table in self._tables if (found := table.find(name)) is not None]
        return self._found[name]


def _at(places: NDArray[np.int64], place: int) -> int | None:
    """Number of the entry with this value."""
    number = int(np.searchsorted(places, place))
    return number if number < len(places) and places[number] == place else None
