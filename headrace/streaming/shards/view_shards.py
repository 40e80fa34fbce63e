"""Describes the shards that hold samples of a view, and which samples these are.

A view changes the sizes of shards: a shard counts as many samples as an epoch takes of it. Shards of which the view
takes none are left out, so they are never read, and the order needs to know nothing of views. Sample number `j` of a
shard is then the j-th sample that the view takes of it, copies included.
"""

import contextlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, IntegrityError
from headrace.format.beside.view_files import (
    CountsRange,
    partitions_of,
    read_counts,
    read_counts_of_shard,
    read_totals,
)
from headrace.format.beside.views import CountArray, NumberedView, ViewFile
from headrace.format.lazy import cached_property
from headrace.format.sample_starts import sample_starts
from headrace.stores.refetch import is_local
from headrace.stores.storage import Storage
from headrace.streaming.shards.shard_set import ShardSet, SnapshotShards, ViewIdentity, with_view

_FOLDER = "views"
_ROWS_KEPT = 1 << 22  # over all shards; 32 MB
_EPOCHS = 4  # a whole shard in the cache serves later epochs, and ranges are fetched again in each
_REQUESTS_OF_A_PART, _REQUESTS_BY_SEEK_POINTS = 4, 2  # without seek points 4 of FLAC, and more of Ogg
_REQUEST_BYTES = 256 << 10  # this many bytes cost about as much as another request, as in `access`


@dataclass(frozen=True, slots=True, eq=False)
class ViewCounts:
    """Places of the counts of a view's shards.

    Attributes:
        storage: the folder of the view.
        files: the file of counts of each partition; None without a chosen sample.
        first_rows: int64 (partitions + 1,), the row of the first shard of each partition in the table of shards.
        starts: int64 (shards + 1,), samples of the audio snapshot before each shard of the table.
        crc32: int64 (shards,), checksum of the counts of each shard of the table.
        dtype: dtype of the counts.
    """

    storage: Storage
    files: tuple[ViewFile | None, ...]
    first_rows: NDArray[np.int64] = field(repr=False)
    starts: NDArray[np.int64] = field(repr=False)
    crc32: NDArray[np.int64] = field(repr=False)
    dtype: np.dtype[np.unsignedinteger[Any]]

    def range_of(self, row: int) -> CountsRange:
        """Place of the counts of a shard, by its row in the table of shards."""
        partition = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        file = self.files[partition]
        assert file is not None, "only shards with chosen samples are read"
        start, end = int(self.starts[row]), int(self.starts[self.first_rows[partition + 1]])
        num_samples, num_after = int(self.starts[row + 1]) - start, (end - start) * self.dtype.itemsize
        return CountsRange(file, num_after, num_samples, int(self.crc32[row]), self.dtype)


@dataclass(frozen=True, eq=False)
class ViewShards:
    """The shards of a snapshot of which a view takes samples (`shard_set.ShardList`).

    Attributes:
        whole: the shards of the snapshot and split.
        chosen: int64 (n,), the shards of `whole` that have samples of the view.
        num_samples: int32 (n,), samples that an epoch takes of each, copies included.
        counts: where the counts of samples are.
    """

    whole: SnapshotShards
    chosen: NDArray[np.int64] = field(repr=False)
    num_samples: NDArray[np.int32] = field(repr=False)
    counts: ViewCounts

    @cached_property
    def num_bytes(self) -> NDArray[np.int64]:
        """See `ShardList.num_bytes`."""
        return self.whole.num_bytes[self.chosen]

    def name(self, shard: int) -> str:
        """See `ShardList.name`."""
        return self.whole.name(int(self.chosen[shard]))

    def lone_lengths(self, shards: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `ShardList.lone_lengths`; copies of a lone sample have its length."""
        return self.whole.lone_lengths(self.chosen[shards])

    @property
    def splits(self) -> tuple[str, ...]:
        """See `SnapshotShards.splits`."""
        return self.whole.splits

    def places(self, splits: Sequence[str]) -> NDArray[np.int64]:
        """See `SnapshotShards.places`."""
        return self.whole.places(splits)[self.chosen]

    def stored_samples(self, shard: int) -> int:
        """Samples that a shard holds, whether the view takes them or not."""
        return int(self.whole.num_samples[self.chosen[shard]])

    def range_of(self, shard: int) -> CountsRange:
        """Place of the counts of a shard."""
        return self.counts.range_of(self.whole.rows.start + int(self.chosen[shard]))


class ViewRows:
    """Maps samples of a view to the rows of their shards; safe for threads. Each process has its own."""

    def __init__(self, shards: ViewShards, cache_folder: Path) -> None:
        """Read nothing yet.

        Args:
            shards: the shards of the view.
            cache_folder: files of counts from a store are kept in its folder `views`.
        """
        self._shards = shards
        self._folder = cache_folder / _FOLDER
        self._is_local = is_local(shards.counts.storage)
        self._lock = threading.Lock()
        self._downloading = threading.Lock()
        self._kept: OrderedDict[int, NDArray[np.int64]] = OrderedDict()
        self._num_kept = 0

    def of(self, shard: int) -> NDArray[np.int64]:
        """The row of each sample that the view takes of a shard, int64 (num_samples,), in increasing order.

        Raises:
            IntegrityError: the counts of the shard are damaged.
            NotFoundError: the file of counts is gone.
        """
        with self._lock:
            if (found := self._kept.get(shard)) is not None:
                self._kept.move_to_end(shard)
                return found
        counts = self._counts(self._shards.range_of(shard))
        rows = np.repeat(np.arange(len(counts)), counts)
        if len(rows) != self._shards.num_samples[shard]:
            raise IntegrityError(
                f"{self._shards.counts.storage.uri}: {self._shards.name(shard)} has {len(rows)} samples by its counts "
                f"and {self._shards.num_samples[shard]} by its total; build the view again"
            )
        with self._lock:
            if shard not in self._kept:
                self._kept[shard] = rows
                self._num_kept += len(rows)
            while self._num_kept > _ROWS_KEPT and len(self._kept) > 1:
                self._num_kept -= len(self._kept.popitem(last=False)[1])
        return rows

    def rows(self, shards: NDArray[np.int64], samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each sample, int64 (n,), from its shard and its number among the samples that the view takes of it."""
        order = np.argsort(shards, kind="stable")
        needed, starts = np.unique(shards[order], return_index=True)
        bounds = [*starts.tolist(), len(order)]
        rows = np.empty(len(samples), np.int64)
        for place, shard in enumerate(needed.tolist()):
            places = order[bounds[place] : bounds[place + 1]]
            rows[places] = self.of(shard)[samples[places]]
        return rows

    def _counts(self, wanted: CountsRange) -> CountArray:
        storage = self._shards.counts.storage
        if self._is_local:
            return read_counts_of_shard(storage, wanted)
        path = self._folder / f"{wanted.file.sha256[:32]}.counts"
        if (found := _kept_counts(path, wanted)) is not None:
            return found
        with self._downloading:  # other threads wait for the one that downloads the file
            if (found := _kept_counts(path, wanted)) is None and self._download(wanted.file, path):
                found = _kept_counts(path, wanted)
        return read_counts_of_shard(storage, wanted) if found is None else found

    def _download(self, file: ViewFile, path: Path) -> bool:
        """Keep a file of counts in the cache folder; False if the folder cannot be written."""
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        blob = read_counts(self._shards.counts.storage, file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(blob)
            temporary.rename(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        return True


def reads_ranges(drawn: int, num_samples: int, num_bytes: int) -> bool:
    """Whether fetching each drawn sample by a ranged request, in four epochs, costs less than the whole shard once."""
    return num_samples > 0 and _EPOCHS * drawn * (num_bytes / num_samples + _REQUEST_BYTES) < num_bytes


def parts_cost_less(drawn: int, part_bytes: float, num_bytes: int, *, has_points: bool) -> bool:
    """Whether fetching a part of each drawn sample, in four epochs, costs less than the whole shard once."""
    requests = _REQUESTS_BY_SEEK_POINTS if has_points else _REQUESTS_OF_A_PART
    return _EPOCHS * drawn * (part_bytes + requests * _REQUEST_BYTES) < num_bytes


def shards_of_view(
    primary: ShardSet, storage: Storage, view: NumberedView, columns: tuple[tuple[str, int], ...] | None = None
) -> ShardSet:
    """The shards of a snapshot and split that hold samples of a view.

    Args:
        primary: the shards of a snapshot that the view fits.
        storage: the folder of the view.
        view: its snapshot.
        columns: for a condition that was evaluated on the spot, the sets that it read and the numbers of their
            snapshots; None for a view with snapshots of its own.

    Raises:
        ConfigError: the view was made for another number of shards.
    """
    whole = primary.shards
    assert isinstance(whole, SnapshotShards)
    table, totals = whole.table, read_totals(storage, view.snapshot)
    if len(table) != len(totals.totals):
        raise ConfigError(
            f"{storage.uri}: the view is of {len(totals.totals)} shards, and {primary.storage.uri} has {len(table)}: "
            "name the view of this output"
        )
    of_split = totals.totals[whole.rows]
    chosen = np.flatnonzero(of_split)
    names, slices = zip(*partitions_of(table), strict=True) if len(table) else ((), ())
    counts = ViewCounts(
        storage,
        tuple(view.snapshot.counts.get(name) for name in names),
        np.array([*(rows.start for rows in slices), len(table)], np.int64),
        sample_starts(table.num_samples),
        totals.crc32,
        view.snapshot.definition.dtype,
    )
    shards = ViewShards(whole, chosen, of_split[chosen], counts)
    number = view.number if columns is None else None
    identity = ViewIdentity(str(view.snapshot.definition), number, view.snapshot.fingerprint, columns or ())
    return replace(primary, shards=shards, identity=with_view(primary.identity, identity))


def _kept_counts(path: Path, wanted: CountsRange) -> CountArray | None:
    """The counts of a shard from a file in the cache folder; None if it is absent or damaged."""
    start, stop = wanted.span
    with contextlib.suppress(OSError, IntegrityError), path.open("rb") as file:
        file.seek(start)
        return wanted.parsed(file.read(stop - start), str(path))
    return None
