"""Opens tars of others at a snapshot of `headrace index --columns`: columns and views work as on an output.

Names, sizes and indexes come from the folder of the snapshot. A tar is looked at when its first sample is needed.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, IntegrityError, NotFoundError
from headrace.format.indexes.index import VERSION_NOTE, ShardIndex
from headrace.format.indexes.index_files import find_index
from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.format.snapshots.tar_lists import folder_of, is_index_of, read_tar_list, tar_version
from headrace.locate.tars import PlainTars
from headrace.stores.storage import Storage, Transfer
from headrace.streaming.shards.shard_set import ShardList, ShardSet, SnapshotShards, snapshot_shards
from headrace.streaming.shards.view_shards import ViewShards

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TarShards(SnapshotShards):
    """The tars of one split of a snapshot (`ShardList`).

    Attributes:
        paths: path of the tar of each row of the table.
        empty: paths of the tars of the snapshot that have no samples.
    """

    paths: tuple[str, ...] = field(repr=False, default=())
    empty: frozenset[str] = field(repr=False, default=frozenset())

    def name(self, shard: int) -> str:
        """See `ShardList.name`."""
        row: int = self.rows.start + shard
        return self.paths[row]

    def lone_lengths(self, shards: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `ShardList.lone_lengths`; only the indexes know which lengths are known."""
        return np.full(len(shards), -1, np.int64)


@dataclass(frozen=True, slots=True)
class WrittenIndexes:
    """Reads the indexes of tars in the folder that has them (`ShardSet.load_index`).

    Attributes:
        folder: the folder.
        names: path of a tar → name of its shard in the snapshot.
    """

    folder: Storage
    names: Mapping[str, str] = field(repr=False)

    def __call__(self, storage: Storage, shard: str) -> ShardIndex:
        """The index of a tar.

        Raises:
            IntegrityError: it is missing, or the tar was written again since the snapshot, or since its index.
        """
        found, version = find_index(self.folder, shard), tar_version(storage, shard)
        if found is None or found.index.notes.get(VERSION_NOTE) != version:
            why = "has no index in" if found is None else "was written again since `headrace index` wrote"
            raise IntegrityError(
                f"{storage.uri}/{shard}: {why} {self.folder.uri}: run `headrace index` again with the same arguments"
            )
        if not is_index_of(found.index, self.names[shard], version):
            raise IntegrityError(
                f"{storage.uri}/{shard}: was written and indexed again since the snapshot that is read: make views "
                "again (`headrace view`), and open the data set again; a state that was saved before cannot go on"
            )
        return found.index


def open_indexed(storage: Storage, found: NumberedSnapshot, split: str | None, transfer: Transfer | None) -> ShardSet:
    """The tars of one split of a snapshot (all splits for None).

    Args:
        storage: the folder `tars/`.
        found: the snapshot.
        split: the split.
        transfer: time limits of the store of the tars.

    Raises:
        ConfigError: the snapshot has no such split; the message lists those it has.
        FormatError: the list of tars is damaged.
    """
    shards, identity = snapshot_shards(storage, found, split)
    listed = read_tar_list(storage, found.snapshot)
    paths = tuple(listed.of_rows(shards.table))
    tars = TarShards(shards.table, shards.rows, paths, frozenset(listed.places().keys() - set(paths)))
    identity = replace(identity, key_at=listed.key_at)
    names = {tars.paths[row]: shards.table.name(row) for row in range(len(shards.table))[shards.rows]}
    indexes = WrittenIndexes(folder_of(storage, transfer), names)
    return ShardSet(listed.storage(storage, transfer), tars, identity, indexes)


def check_named(named: str, tars: PlainTars, shards: ShardList) -> None:
    """Compare the tars that a user named with those of the snapshot.

    Warns of tars that are not in the snapshot.

    Raises:
        ConfigError: a part of the tars was named.
        NotFoundError: a tar of the snapshot is gone.
    """
    whole = shards.whole if isinstance(shards, ViewShards) else shards
    assert isinstance(whole, TarShards), "the tars of a snapshot"
    there = {whole.name(shard) for shard in range(len(whole.num_samples))}
    left = there.difference(tars.names)
    if gone := next((name for name in sorted(left)[:_SHOWN] if not tars.storage.exists(name)), None):
        raise NotFoundError(
            f"{tars.storage.uri}/{gone}: the tar is gone since the snapshot that is read: put it back, or run "
            "`headrace index --columns` again, and `headrace view` for each view"
        )
    if left:
        raise ConfigError(
            f"{named}: names {len(tars.names)} tars, and the columns in {tars.storage.uri} are of {len(left)} more, "
            f"such as {min(left)}: name the folder, and choose samples by split=, view= or where="
        )
    if new := sorted(set(tars.names) - there - whole.empty):
        shown = ", ".join(new[:_SHOWN])
        is_view = isinstance(shards, ViewShards)
        way_out = "`headrace index --columns` again" + (", and `headrace view` for the view" if is_view else "")
        warnings.warn(
            f"{named}: {len(new)} tars are not read ({shown}{', …' if len(new) > _SHOWN else ''}), since they came "
            f"after the {'view' if is_view else 'columns'}: run {way_out}",
            stacklevel=2,
        )
