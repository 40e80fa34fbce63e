"""Describes the shards of a stream whose samples are cut into windows, and finds the frames of each window.

As with a view, a shard counts as many samples as an epoch takes of it, so the order needs to know nothing of windows.
Item number `j` of a shard is the j-th of the windows of its samples, in the order of the tar; of a view, the windows of
each copy follow those of the copy before. How many there are follows from the indexes: they are all read once on a
host, and the counts are kept in the folder `windows` of the cache folder.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.format.indexes.index import ABSENT, ShardIndex
from headrace.format.lazy import cached_property
from headrace.format.sample_starts import sample_starts
from headrace.stores.concurrent_requests import map_on_threads
from headrace.streaming.cache.kept_arrays import Table, changed_lengths, kept, kept_path
from headrace.streaming.recent import Recent
from headrace.streaming.shards.shard_set import ListedShards, ShardList, ShardSet, SnapshotShards
from headrace.streaming.shards.view_shards import ViewRows, ViewShards
from headrace.streaming.windows import Windows

_log = logging.getLogger(__name__)

_FOLDER = "windows"
_INDEXES_AT_ONCE = 64
_TABLES_KEPT = 256  # a few shuffle blocks
_MOST = np.iinfo(np.int32).max

Ints = NDArray[np.int64]
IndexOf = Callable[[int], ShardIndex]


@dataclass(frozen=True, eq=False)
class WindowShards:
    """The shards of a stream that have windows (`ShardList`).

    Attributes:
        whole: the shards of the stream, or those of its view.
        windows: how their samples are cut.
        chosen: int64 (n,), the shards of `whole` that have a window.
        num_samples: int32 (n,), windows of each.
    """

    whole: SnapshotShards | ViewShards | ListedShards
    windows: Windows
    chosen: Ints = field(repr=False)
    num_samples: NDArray[np.int32] = field(repr=False)

    @cached_property
    def num_bytes(self) -> Ints:
        """See `ShardList.num_bytes`."""
        return self.whole.num_bytes[self.chosen]

    def name(self, shard: int) -> str:
        """See `ShardList.name`."""
        return self.whole.name(int(self.chosen[shard]))

    def lone_lengths(self, shards: Ints) -> Ints:
        """See `ShardList.lone_lengths`; the rates that windows need are in the indexes alone."""
        return np.full(len(shards), -1, np.int64)

    @property
    def splits(self) -> tuple[str, ...]:
        """See `SnapshotShards.splits`; none for plain tars."""
        return () if isinstance(self.whole, ListedShards) else self.whole.splits

    def places(self, splits: Sequence[str]) -> Ints:
        """See `SnapshotShards.places`. Not for plain tars, which nothing is joined to."""
        assert not isinstance(self.whole, ListedShards)
        return self.whole.places(splits)[self.chosen]

    def stored_samples(self, shard: int) -> int:
        """Samples that a shard holds."""
        return stored_samples(self.whole, int(self.chosen[shard]))


NumberedShards = SnapshotShards | ViewShards | WindowShards
"""Shards of a snapshot, which the files of latents and columns belong to."""


def numbered(shards: ShardList) -> NumberedShards | None:
    """The shards as those of a snapshot; None for plain tars."""
    whole = shards.whole if isinstance(shards, WindowShards) else shards
    return shards if isinstance(shards, NumberedShards) and not isinstance(whole, ListedShards) else None


def partners(ours: ShardList, theirs: SnapshotShards) -> NDArray[np.int64]:
    """For each of a stream's shards the joined shard with the same samples, int64 (n,); -1 without such a shard."""
    own = numbered(ours)
    assert own is not None  # others have no snapshots to fit
    splits = sorted({*own.splits, *theirs.splits})
    wanted, found = own.places(splits), theirs.places(splits)
    if not len(found):
        return np.full(len(wanted), ABSENT, np.int64)
    order = np.argsort(found, kind="stable")
    spot = order[np.minimum(np.searchsorted(found, wanted, sorter=order), len(found) - 1)]
    return np.where(found[spot] == wanted, spot, ABSENT)


class ItemWindows(NamedTuple):
    """The windows of some items of a stream.

    Attributes:
        rows: int64 (n,), the row of each item's sample in its shard.
        first: int64 (n,), first frame of the window.
        num_frames: int64 (n,), its frames; at the end of a sample fewer than `length`.
        length: int64 (n,), frames of a whole window.
    """

    rows: Ints
    first: Ints
    num_frames: Ints
    length: Ints


class WindowRows:
    """Maps windows to the rows of their shards; safe for threads. Each process has its own."""

    def __init__(self, shards: WindowShards, index: IndexOf, cache_folder: Path) -> None:
        """Read nothing yet.

        Args:
            shards: the shards.
            index: gives the index of one of them by its number.
            cache_folder: see `ViewRows`.
        """
        self._shards = shards
        self._index = index
        self._view = ViewRows(shards.whole, cache_folder) if isinstance(shards.whole, ViewShards) else None
        self._folder = cache_folder / _FOLDER
        self._kept: Recent[int, _ShardWindows] = Recent(_TABLES_KEPT)

    def rows(self, shards: Ints, items: Ints) -> Ints:
        """Row of each item, int64 (n,), from its shard and its number among the windows of the shard."""
        return self.of(shards, items).rows

    def of(self, shards: Ints, items: Ints) -> ItemWindows:
        """Row and frames of each item; see `rows`."""
        found = ItemWindows(*(np.empty(len(items), np.int64) for _ in ItemWindows._fields))
        for shard in np.unique(shards).tolist():
            places = np.flatnonzero(shards == shard)
            for out, values in zip(found, self._kept.get(shard, self._made).of(items[places]), strict=True):
                out[places] = values
        return found

    def _made(self, shard: int) -> "_ShardWindows":
        rows = None if self._view is None else self._view.of(int(self._shards.chosen[shard]))
        index = self._index(shard)
        found = _ShardWindows.made(index, rows, self._shards.windows)
        if found.starts[-1] != self._shards.num_samples[shard]:
            raise changed_lengths(index.shard, self._folder)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _ShardWindows:
    """The samples of a shard that are cut into windows: all, or those that a view takes. All arrays are int64 (n,).

    Attributes:
        rows: row of each.
        num_frames: its frames.
        length: frames of a window.
        hop: frames from window to window.
        starts: (n + 1,), number of windows before each.
    """

    rows: Ints
    num_frames: Ints
    length: Ints
    hop: Ints
    starts: Ints

    @classmethod
    def made(cls, index: ShardIndex, rows: Ints | None, windows: Windows) -> "_ShardWindows":
        rows = np.arange(len(index)) if rows is None else rows
        rates, frames = index.rates_hz[rows], index.lengths[rows]
        _check_known(index, rows, frames, rates)
        return cls(rows, frames, *windows.frames(rates), sample_starts(windows.counts(frames, rates)))

    def of(self, items: Ints) -> ItemWindows:
        place = np.searchsorted(self.starts, items, side="right") - 1
        first, length = (items - self.starts[place]) * self.hop[place], self.length[place]
        return ItemWindows(self.rows[place], first, np.minimum(length, self.num_frames[place] - first), length)


def stored_samples(shards: ShardList, shard: int) -> int:
    """Samples that a shard holds, whether a view takes them or not, and however they are cut."""
    if isinstance(shards, ViewShards | WindowShards):
        return shards.stored_samples(shard)
    return int(shards.num_samples[shard])


def in_windows(primary: ShardSet, index: IndexOf, windows: Windows, cache_folder: Path) -> ShardSet:
    """The shards of a stream with windows as their samples.

    Args:
        primary: the shards.
        index: gives the index of one of them by its number.
        windows: how samples are cut.
        cache_folder: the counts of windows are kept there.

    Raises:
        ConfigError: an index does not know the length or the rate of a sample.
        StorageError: an index cannot be read.
    """
    whole, data = primary.shards, primary.identity
    assert isinstance(whole, SnapshotShards | ViewShards | ListedShards)
    origin = f"{data.fingerprint} {windows}"

    def parsed(table: Table) -> NDArray[np.int32] | None:
        counts = table[0]["counts"]
        return counts if counts.dtype == np.int32 and counts.shape == (len(primary),) else None

    def made() -> Table:
        return {"counts": _counted(primary, index, windows, cache_folder)}, {}

    counts = kept(kept_path(cache_folder, _FOLDER, origin, primary.lengths, data.split), parsed, made)
    chosen = np.flatnonzero(counts)
    fingerprint = hashlib.sha256(origin.encode() + counts.tobytes()).hexdigest()
    identity = replace(data, fingerprint=fingerprint, windows=windows)
    return replace(primary, shards=WindowShards(whole, windows, chosen, counts[chosen]), identity=identity)


def _counted(primary: ShardSet, index: IndexOf, windows: Windows, cache_folder: Path) -> NDArray[np.int32]:
    """Windows of each shard, int32 (n,), from the indexes."""
    _log.info("%s: counting the windows of %d samples once", primary.identity.uri, primary.num_samples)
    view = ViewRows(primary.shards, cache_folder) if isinstance(primary.shards, ViewShards) else None

    def counted(shard: int) -> int:
        rows = None if view is None else view.of(shard)
        return int(_ShardWindows.made(index(shard), rows, windows).starts[-1])

    shards = list(range(len(primary)))
    is_local = primary.storage.local_path("any") is not None
    groups = (shards[first : first + _INDEXES_AT_ONCE] for first in range(0, len(shards), _INDEXES_AT_ONCE))
    found = [list(map(counted, g)) if is_local else map_on_threads(counted, g, "index") for g in groups]
    counts = np.array([count for group in found for count in group], np.int64)
    if counts.max(initial=0) > _MOST:
        raise ConfigError(
            f"{primary.identity.uri}: a shard has {counts.max()} windows, at most {_MOST} are possible: choose a "
            "longer window_hop_seconds"
        )
    return counts.astype(np.int32)


def _check_known(index: ShardIndex, rows: Ints, frames: Ints, rates: NDArray[np.float64]) -> None:
    unknown = np.flatnonzero((frames < 0) | (rates <= 0))
    if len(unknown) and index.outputs and not index.outputs[0].is_timed:
        raise ConfigError(
            f"{index.shard}: its outputs have no time axis, so windows have nothing to cut there: name the latents "
            "with a time axis as remote, and join this folder to them"
        )
    if len(unknown):
        raise ConfigError(
            f"{index.shard}: the index does not know the length or the rate of sample "
            f"{index.key(int(rows[unknown[0]]))!r}, which windows need: its header has none or cannot be read; write "
            "it again as FLAC, leave its shard out, or leave out window_seconds"
        )
