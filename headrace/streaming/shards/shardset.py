"""The shards that one stream reads: their names, sizes and indexes, in storage order.

Owns the step from a `remote` to a fixed list of shards: an `audio/` or `latents/<name>/` folder at one snapshot, or the
shards that `headrace.streaming.shards.foreign` found. Reading their bytes is `access`; this module reads indexes only.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.index import ShardIndex
from headrace.snapshots import NumberedSnapshot, ShardTable, read_table
from headrace.storage import Storage

_INDEXES_KEPT = 1024  # a shuffle block is about 64 shards; an index of 50 samples takes about 10 kB


@dataclass(frozen=True, slots=True)
class Identity:
    """What a saved state says of a stream's data.

    Attributes:
        uri: where it was read from.
        split: None for all.
        snapshot: its number; None for what is in none, or in several.
        fingerprint: equal fingerprints mean the same samples in the same shards.
    """

    uri: str
    split: str | None
    snapshot: int | None
    fingerprint: str


class ShardList(Protocol):
    """Names and sizes of shards, in storage order."""

    @property
    def num_samples(self) -> NDArray[np.int32]:
        """Samples in each shard, int32 (n,)."""

    @property
    def num_bytes(self) -> NDArray[np.int64]:
        """Size of each file as stored, int64 (n,); -1 where it is not known yet."""

    def name(self, shard: int) -> str:
        """Path of a shard's file below the storage's root."""


@dataclass(frozen=True, slots=True)
class SnapshotShards:
    """The shards of one split of a snapshot (`ShardList`): slices of its table, so a million cost nothing."""

    table: ShardTable
    rows: slice

    @property
    def num_samples(self) -> NDArray[np.int32]:
        """See `ShardList.num_samples`."""
        return self.table.num_samples[self.rows]

    @property
    def num_bytes(self) -> NDArray[np.int64]:
        """See `ShardList.num_bytes`."""
        return self.table.num_bytes[self.rows]

    def name(self, shard: int) -> str:
        """See `ShardList.name`."""
        return self.table.name(self.rows.start + shard)

    def places(self, splits: Sequence[str]) -> NDArray[np.int64]:
        """Split (by its place in `splits`), bucket and sequence number in one number, int64 (n,).

        This is what audio and latent shards of the same samples share.
        """
        table, rows = self.table, self.rows
        numbers = np.array([splits.index(split) for split in table.splits], np.int64)
        split = numbers[table.split[rows]] if len(table.splits) else np.zeros(0, np.int64)
        return split << 55 | table.bucket[rows].astype(np.int64) << 31 | table.sequence[rows].astype(np.int64)


@dataclass(frozen=True, slots=True)
class ListedShards:
    """Shards listed one by one (`ShardList`)."""

    names: tuple[str, ...]
    num_samples: NDArray[np.int32]
    num_bytes: NDArray[np.int64]

    def name(self, shard: int) -> str:
        """See `ShardList.name`."""
        return self.names[shard]


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of one stream, and where they lie. A value: it travels to workers.

    Attributes:
        storage: the root that names are relative to.
        shards: names and sizes.
        identity: what a saved state says of it.
        load_index: reads or makes the index of a shard by name; called by `Indexes`.
        is_named_by_content: whether a shard's name alone says what is in it.
    """

    storage: Storage
    shards: ShardList
    identity: Identity
    load_index: Callable[[Storage, str], ShardIndex]
    is_named_by_content: bool = False

    def __len__(self) -> int:
        """Number of shards."""
        return len(self.shards.num_samples)

    @property
    def num_samples(self) -> int:
        """Samples of all shards."""
        return int(self.shards.num_samples.sum(dtype=np.int64))


class Indexes:
    """The indexes that were asked for lately, loaded once each; safe for threads, and starts empty in each process."""

    def __init__(self, load: Callable[[int], ShardIndex], capacity: int = _INDEXES_KEPT) -> None:
        self._load = load
        self._capacity = capacity
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, ShardIndex] = OrderedDict()

    def get(self, shard: int) -> ShardIndex:
        """Index of a shard. Two threads that ask at once may both load it; the result is the same."""
        with self._lock:
            if (found := self._kept.get(shard)) is not None:
                self._kept.move_to_end(shard)
                return found
        loaded = self._load(shard)
        with self._lock:
            self._kept[shard] = loaded
            if len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        return loaded

    def __reduce__(self) -> tuple[type["Indexes"], tuple[Callable[[int], ShardIndex], int]]:
        """Leave the indexes and the lock behind."""
        return type(self), (self._load, self._capacity)


@dataclass(frozen=True, slots=True)
class Locator:
    """From sample numbers to shards and rows.

    Attributes:
        offsets: int64 (n + 1,), the number of the first sample of each shard.
    """

    offsets: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, num_samples: NDArray[Any]) -> "Locator":
        """From the sizes of the shards."""
        offsets = np.zeros(len(num_samples) + 1, np.int64)
        np.cumsum(num_samples, out=offsets[1:])
        return cls(offsets)

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self.offsets) - 1

    def find(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shard and row inside it of each sample number, both int64 of the same shape."""
        shards = np.searchsorted(self.offsets, samples, side="right") - 1
        return shards, samples - self.offsets[shards]


def snapshot_shards(storage: Storage, found: NumberedSnapshot, split: str | None) -> tuple[SnapshotShards, Identity]:
    """The shards of one split of a snapshot (all splits for None).

    Raises:
        ConfigError: the snapshot has no such split; the message lists those it has.
    """
    table = read_table(storage, found.snapshot)
    if split is not None and split not in found.snapshot.splits:
        known = ", ".join(found.snapshot.splits) or "none"
        raise ConfigError(f"{storage.uri}, snapshot {found.number}: no split {split!r}; it has {known}")
    identity = Identity(storage.uri, split, found.number, found.snapshot.fingerprint)
    return SnapshotShards(table, table.rows_of(split)), identity
