"""Describes the shards that one stream reads: their names, sizes and indexes, in storage order.

They are the shards of one snapshot, or the tars that `foreign` indexed. Their samples are read by `access`.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.format.indexes.index import ShardIndex
from headrace.format.sample_starts import sample_starts
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.format.tars.member_names import KeyAt
from headrace.locate.outputs import table_of_split
from headrace.stores.storage import Storage
from headrace.streaming.windows import Windows

_INDEXES_KEPT = 1024  # a shuffle block is about 64 shards; an index of 50 samples takes about 10 kB


@dataclass(frozen=True, slots=True)
class ViewIdentity:
    """Identity of a stream's view in a saved state.

    Attributes:
        definition: what it chooses, in a line.
        snapshot: number of its snapshot; None for a condition that was evaluated on the spot.
        fingerprint: equal fingerprints mean the same counts for the same samples.
        columns: the snapshots of columns that the condition was evaluated on, by set; empty for a view with snapshots.
    """

    definition: str
    snapshot: int | None
    fingerprint: str
    columns: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DataIdentity:
    """Identity of a stream's data in a saved state.

    Attributes:
        uri: where it was read from.
        split: None for all.
        snapshot: its number; None for tars of no snapshot, or of several outputs.
        fingerprint: equal fingerprints mean the same samples in the same shards.
        key_at: where keys end in plain tars.
        view: the view; None for all samples. The fingerprint covers it.
        windows: the windows that samples are cut into; None for whole samples. The fingerprint covers them.
    """

    uri: str
    split: str | None
    snapshot: int | None
    fingerprint: str
    key_at: KeyAt = KeyAt.FIRST_DOT
    view: ViewIdentity | None = None
    windows: Windows | None = None


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

    def lone_lengths(self, shards: NDArray[np.int64]) -> NDArray[np.int64]:
        """Frames of the only sample of each of these shards, int64 (n,); -1 where the index must be read."""


@dataclass(frozen=True, slots=True)
class SnapshotShards:
    """The shards of one split of a snapshot (`ShardList`): slices of its table, so a million shards cost no time."""

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

    def lone_lengths(self, shards: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `ShardList.lone_lengths`; the table has the sum of the frames of each shard."""
        return np.where(self.num_samples[shards] == 1, self.table.num_frames[self.rows][shards], -1)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits of the table of shards."""
        return self.table.splits

    @property
    def has_time_axis(self) -> bool:
        """Whether the latents of some sample of the snapshot, of any split, have more than one frame."""
        return bool((self.table.num_frames > self.table.num_samples).any())

    def places(self, splits: Sequence[str]) -> NDArray[np.int64]:
        """Split (by its place in `splits`), bucket and sequence number as one number, int64 (n,).

        Audio and latent shards of the same samples have the same number.
        """
        table, rows = self.table, self.rows
        numbers = np.array([splits.index(split) for split in table.splits], np.int64)
        split = numbers[table.split[rows]] if len(table.splits) else np.zeros(0, np.int64)
        return split << 55 | table.bucket[rows].astype(np.int64) << 31 | table.sequence[rows].astype(np.int64)


@dataclass(frozen=True, slots=True)
class ListedShards:
    """The indexed tars of a plain WebDataset (`ShardList`)."""

    names: tuple[str, ...]
    num_samples: NDArray[np.int32]
    num_bytes: NDArray[np.int64]

    def name(self, shard: int) -> str:
        """See `ShardList.name`."""
        return self.names[shard]

    def lone_lengths(self, shards: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `ShardList.lone_lengths`; only the indexes have lengths."""
        return np.full(len(shards), -1, np.int64)


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of one stream and their store. A value that is pickled to workers.

    Attributes:
        storage: the root that names are relative to.
        shards: names and sizes.
        identity: what a saved state records of it.
        load_index: reads or makes the index of a shard by name; called by `IndexCache`.
        is_named_by_content: whether a shard's name changes with its content.
        has_audio: whether some shard is known to hold audio; False where opening read no index.
        lengths: what the lengths of samples follow from, with the fingerprint, for what is kept about them in the cache
            folder: where the shards are; empty if the fingerprint covers them: of a snapshot, or of tars with indexes.
    """

    storage: Storage
    shards: ShardList
    identity: DataIdentity
    load_index: Callable[[Storage, str], ShardIndex]
    is_named_by_content: bool = False
    has_audio: bool = False
    lengths: str = ""

    def __len__(self) -> int:
        """Number of shards."""
        return len(self.shards.num_samples)

    @property
    def num_samples(self) -> int:
        """Samples of all shards."""
        return int(self.shards.num_samples.sum(dtype=np.int64))


class IndexCache:
    """The indexes used last, each loaded once; safe for threads.

    The loader of the indexes is passed to `get` rather than kept, because it holds this object: a reference cycle would
    keep files open until Python's cycle collector runs.
    """

    def __init__(self, capacity: int = _INDEXES_KEPT) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, ShardIndex] = OrderedDict()
        self._loading: dict[int, threading.Lock] = {}

    def get(self, shard: int, load: Callable[[int], ShardIndex]) -> ShardIndex:
        """Index of a shard. Of threads that ask at once, one loads it, and the others wait."""
        with self._lock:
            if (found := self._kept.get(shard)) is not None:
                self._kept.move_to_end(shard)
                return found
            loading = self._loading.setdefault(shard, threading.Lock())
        with loading:
            if (found := self._kept.get(shard)) is not None:
                return found
            try:
                return self._keep(shard, load(shard))
            finally:
                with self._lock:
                    self._loading.pop(shard, None)

    def _keep(self, shard: int, index: ShardIndex) -> ShardIndex:
        with self._lock:
            self._kept[shard] = index
            if len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        return index

    def forget(self, shard: int) -> None:
        """Drop an index, so that it is loaded again when it is next used."""
        with self._lock:
            self._kept.pop(shard, None)


@dataclass(frozen=True, slots=True)
class Locator:
    """Maps sample numbers to shards and rows.

    Attributes:
        offsets: int64 (n + 1,), the number of the first sample of each shard.
    """

    offsets: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, num_samples: NDArray[Any]) -> "Locator":
        """Make one from the number of samples of each shard."""
        return cls(sample_starts(num_samples))

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self.offsets) - 1

    def find(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shard and row inside it of each sample number, both int64 of the same shape."""
        shards = np.searchsorted(self.offsets, samples, side="right") - 1
        return shards, samples - self.offsets[shards]


def with_view(identity: DataIdentity, view: ViewIdentity) -> DataIdentity:
    """The identity of the samples that a view takes of some data."""
    together = f"{identity.fingerprint} view {view.fingerprint}"
    return replace(identity, fingerprint=hashlib.sha256(together.encode()).hexdigest(), view=view)


def snapshot_shards(
    storage: Storage, found: NumberedSnapshot, split: str | None
) -> tuple[SnapshotShards, DataIdentity]:
    """The shards of one split of a snapshot (all splits for None).

    Raises:
        ConfigError: the snapshot has no such split; the message lists those it has.
    """
    table, rows = table_of_split(storage, found, split)
    identity = DataIdentity(storage.uri, split, found.number, found.snapshot.fingerprint)
    return SnapshotShards(table, rows), identity
