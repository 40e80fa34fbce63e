"""Chooses the shards that a smoke test reads: shards that are new since the last passed test, and some of the others.

Audio and latents of the same samples have the same place (split, bucket and sequence number) and are read together. The
hash of a place decides in which test it is due: within `reread_every` passed tests, each place is due once. If that is
more than the limits, new shards come first and places are drawn at random, with the snapshots as seed. Pure.
"""

import hashlib
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot

Place = tuple[str, int, int]
"""Split, bucket, sequence number."""

_COLUMNS = ("split", "bucket", "sequence", "digest", "num_samples", "num_bytes", "num_frames")


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on what a smoke test reads of one part (audio, or one set of latents).

    Attributes:
        num_samples: number of samples.
        num_bytes: bytes of shards.
        num_encoded: samples of one set of latents that are encoded again.
    """

    num_samples: int = 20_000
    num_bytes: int = 4_000_000_000
    num_encoded: int = 64

    def hold(self, table: ShardTable) -> bool:
        """Whether all shards of a table are within the limits."""
        return bool(table.num_samples.sum() <= self.num_samples and table.num_bytes.sum() <= self.num_bytes)


@dataclass(frozen=True, slots=True)
class Coverage:
    """A record of the smoke tests that passed.

    Attributes:
        num_passes: number of passed tests.
        snapshots: part → number and fingerprint of the snapshot that the last passed test read.
    """

    num_passes: int = 0
    snapshots: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def after(self, snapshots: Mapping[str, NumberedSnapshot]) -> "Coverage":
        """The record after one more passed test."""
        read = {part: (numbered.number, numbered.snapshot.fingerprint) for part, numbered in snapshots.items()}
        return Coverage(self.num_passes + 1, read)

    def to_json(self) -> dict[str, Any]:
        """JSON object; `from_json` is its inverse."""
        return {"passes": self.num_passes, "snapshots": {part: list(read) for part, read in self.snapshots.items()}}

    @classmethod
    def from_json(cls, content: object) -> Self:
        """Read the record that `to_json` wrote. Anything else gives the empty record, for which all shards are new."""
        match content:
            case {"passes": int() as num_passes, "snapshots": dict() as snapshots}:
                try:
                    return cls(num_passes, {str(part): (int(n), str(mark)) for part, (n, mark) in snapshots.items()})
                except (TypeError, ValueError):
                    pass
        return cls()


@dataclass(frozen=True, slots=True)
class ChosenShards:
    """The shards to read, in the order of their tables.

    Attributes:
        tables: part → the chosen rows of its table of shards.
        num_new: part → number of chosen shards that are new since the last passed test.
    """

    tables: Mapping[str, ShardTable]
    num_new: Mapping[str, int]


def choose(
    tables: Mapping[str, ShardTable],
    known: Mapping[str, Collection[str]],
    *,
    num_passes: int = 0,
    reread_every: int = 1,
    limits: ReadLimits | None = None,
) -> ChosenShards:
    """Choose the shards that a smoke test reads: at least one, if there are any.

    Args:
        tables: part → all its shards.
        known: part → names of the shards in the snapshot of the last passed test.
        num_passes: number of tests that have passed; it determines which places are due.
        reread_every: number of passed tests within which every place is read; 1 chooses all places each time.
        limits: limits on what is read.
    """
    named = {part: dict(zip(_places(table), table.names(), strict=True)) for part, table in tables.items()}
    new = {part: {at for at, name in names.items() if name not in known.get(part, ())} for part, names in named.items()}
    every = sorted(set().union(*named.values()))
    ahead = {
        place: (_turn(place) - num_passes) % reread_every for place in every
    }  # number of tests until a place is due
    nearest = min(ahead.values(), default=0)
    is_new = set().union(*new.values())
    chosen = is_new | {place for place in every if ahead[place] == (0 if is_new else nearest)}
    kept = _within(tables, sorted(chosen), is_new, limits or ReadLimits())
    picked = {part: _picked(table, kept) for part, table in tables.items()}
    return ChosenShards(picked, {part: len(kept & new[part]) for part in tables})


def _within(
    tables: Mapping[str, ShardTable], chosen: list[Place], is_new: Collection[Place], limits: ReadLimits
) -> set[Place]:
    """The chosen places; a random draw of them if the shards of some part exceed the limits."""
    if all(limits.hold(_picked(table, chosen)) for table in tables.values()):
        return set(chosen)
    seed = hashlib.sha256(b"".join(table.to_bytes() for table in tables.values())).digest()
    order = np.random.default_rng(int.from_bytes(seed[:8], "little")).permutation(len(chosen))
    drawn = sorted(
        (chosen[i] for i in order), key=lambda place: place not in is_new
    )  # the sort is stable: new places first, else in drawn order
    num_kept = len(drawn)
    for table in tables.values():
        sizes = dict(zip(_places(table), zip(table.num_samples, table.num_bytes, strict=True), strict=True))
        read = np.cumsum([sizes.get(place, (0, 0)) for place in drawn], axis=0, dtype=np.int64)
        is_within = (read <= (limits.num_samples, limits.num_bytes)).all(axis=1)
        num_kept = min(num_kept, int(is_within.sum()))
    return set(drawn[: max(1, num_kept)])


def _picked(table: ShardTable, places: Collection[Place]) -> ShardTable:
    wanted = set(places)
    rows = np.array([row for row, place in enumerate(_places(table)) if place in wanted], np.int64)
    return replace(table, **{name: getattr(table, name)[rows] for name in _COLUMNS})


def _places(table: ShardTable) -> list[Place]:
    splits = (table.splits[split] for split in table.split)
    return list(zip(splits, table.bucket.tolist(), table.sequence.tolist(), strict=True))


def _turn(place: Place) -> int:
    return zlib.crc32("/".join(map(str, place)).encode())
