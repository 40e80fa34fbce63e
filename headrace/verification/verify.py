"""Re-reads every shard of a data set and compares it with everything that describes it: `headrace verify`.

Each shard is read by `shard_check`. Here the counts in `sizes.json`, snapshot and manifests are compared as well.
Nothing is changed. `rounds` verifies a part at a time, and continues where it stopped. `audit` makes the cheaper
comparisons of a build.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from headrace.assemble.centroids import DAMAGED, damaged_centroids
from headrace.errors import ConfigError, HeadraceError
from headrace.format.beside.view_files import read_view
from headrace.format.beside.views import VIEWS
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_table
from headrace.format.snapshots.tar_lists import folder_of, read_tar_list
from headrace.format.tars.member_names import KeyAt
from headrace.locate import Location, locate
from headrace.locate.names import is_pattern
from headrace.locate.no_shards import no_samples
from headrace.locate.outputs import (
    AUDIO,
    COLUMNS,
    ShardFolder,
    folders_of_output,
    names_of_views,
    possible_folders,
    view_folders,
)
from headrace.locate.shard_list import LocatedShard, shards_of
from headrace.locate.tars import indexed_folder
from headrace.ordered import TaskThreads, map_in_order
from headrace.stores.storage import Storage
from headrace.verification.column_fit import misfits, with_partners
from headrace.verification.shard_check import CheckedShard, Depth, Fault, check_shard
from headrace.verification.snapshot_check import (
    faults_below,
    faults_of_older,
    faults_of_origin,
    gaps,
    lost_columns,
    lost_snapshots,
    lost_view,
)
from headrace.verification.unseen import unseen_beside_tars, unseen_in_output
from headrace.verification.view_check import faults_of_view

if TYPE_CHECKING:
    from headrace.format.snapshots.shard_table import ShardTable

_GONE = "is gone since it was indexed: restore it, or run `headrace index` again with the same arguments"
Checks: TypeAlias = Callable[[Sequence[LocatedShard]], Iterator[CheckedShard]]
"""Reads shards, wherever that may be: yields the results in the order of the shards."""


@dataclass(slots=True)
class Verdict:
    """The result of verifying a data set.

    Attributes:
        faults: all faults; empty when there are none.
        num_shards: number of shards read.
        num_samples: number of samples in them.
        num_bytes: number of bytes read.
        num_decoded: number of samples decoded.
    """

    faults: list[Fault] = field(default_factory=list)
    num_shards: int = 0
    num_samples: int = 0
    num_bytes: int = 0
    num_decoded: int = 0

    def add(self, checked: CheckedShard) -> None:
        """Count a shard that was read."""
        self.faults += checked.faults
        self.num_shards += 1
        self.num_samples += checked.num_samples
        self.num_bytes += checked.num_bytes
        self.num_decoded += checked.num_decoded


@dataclass(frozen=True, slots=True)
class Target:
    """Shards to verify, and faults that are known already.

    Attributes:
        shards: the shards to read.
        faults: faults that were found without reading a shard.
        key_at: where keys end in plain tars.
        unseen: what is beside the shards and is not looked at, a sentence each.
        seen: the folders with snapshots that are looked at, each with its newest snapshot.
    """

    shards: tuple[LocatedShard, ...]
    faults: tuple[Fault, ...]
    key_at: KeyAt = KeyAt.FIRST_DOT
    unseen: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


def find_target(path: str, key_at: KeyAt = KeyAt.FIRST_DOT) -> Target:
    """The shards that a path names, and the faults of the files that describe them; see `headrace.locate.locate`.

    Args:
        path: what to verify.
        key_at: where keys end in plain tars.

    Raises:
        NotFoundError: there are no shards.
        ConfigError: `key_at` is given for an output of Headrace, whose keys are known.
    """
    located = locate(path)
    if located.tars is not None:
        return _target_of_tars(located, key_at)
    if key_at is not KeyAt.FIRST_DOT:
        raise ConfigError(f"{path}: is an output of Headrace, which knows its keys: leave out --key-at {key_at}")
    if not located.is_output and _is_view(located.storage):
        raise ConfigError(f"{path}: a view, which has no shards: name its output, whose views are verified with it")
    shards: list[LocatedShard] = []
    faults: list[Fault] = []
    folders = located.all_folders()
    for folder in folders:
        found = _target_of_folder(folder)
        faults += found.faults
        if located.is_output and folder.name.startswith(f"{COLUMNS}/"):
            audio = located.storage.at(AUDIO)
            faults += misfits(audio, folder)
            shards += with_partners(found.shards, shards, folder, audio)
        else:
            shards += found.shards
    if located.is_output:
        faults += _faults_of_output(located.storage)
        folders += view_folders(located.storage)
    seen = tuple(f"{folder.name} (snapshot {folder.numbers[-1]})" for folder in folders)
    return Target(tuple(shards), tuple(faults), unseen=tuple(unseen_in_output(located)), seen=seen)


def _target_of_tars(located: Location, key_at: KeyAt) -> Target:
    """Tars of others; of a whole folder also the columns and views that `headrace index --columns` wrote for them."""
    assert located.tars is not None
    shards = shards_of(located)
    faults = [] if is_pattern(located.named) else list(lost_snapshots(located.storage))
    indexed = located.tars.indexed or (indexed_folder(located.storage) if located.names_folder else None)
    if indexed is not None:
        folder = folder_of(indexed.storage)
        try:
            paths = read_tar_list(indexed.storage, indexed.snapshot().snapshot).places()
        except HeadraceError as error:
            faults.append(Fault(indexed.storage.uri, str(error)))
            paths = {}
        there = {shard.name for shard in shards}
        faults += [Fault(f"{located.tars.storage.uri}/{path}", _GONE) for path in paths if path not in there]
        shards = [replace(shard, indexes=folder) if shard.name in paths else shard for shard in shards]
        for part in folders_of_output(folder):
            if part.name.startswith(f"{COLUMNS}/"):
                found = _target_of_folder(part)
                shards += found.shards
                faults += found.faults
        for view in view_folders(folder):
            faults += [*gaps(view), *faults_of_view(indexed.storage, view)]
    return Target(tuple(shards), tuple(faults), key_at, tuple(unseen_beside_tars(located, indexed)))


def _faults_of_output(output: Storage) -> Iterator[Fault]:
    """Snapshots and views that should be there, and faults of views."""
    for folder in possible_folders(output).values():
        yield from lost_snapshots(folder)
    for name in names_of_views(output):
        yield from lost_view(output.at(name))
    yield from lost_columns(output)
    for part in [*folders_of_output(output), *view_folders(output)]:
        yield from faults_of_origin(output, part)
    for view in view_folders(output):
        yield from gaps(view)
        yield from faults_of_view(output.at(AUDIO), view)


def verify(
    target: Target,
    depth: Depth,
    progress: Callable[[CheckedShard], None] = lambda shard: None,  # noqa: ARG005
) -> Verdict:
    """Read and check every shard of the target.

    Memory is bounded by one index and one sample per thread; a compressed tar is unpacked into a temporary file.

    Args:
        target: the shards.
        depth: how much is read and decoded.
        progress: called after each shard.
    """
    verdict = Verdict(list(target.faults))
    for checked in checked_on_threads(target.shards, depth, target.key_at):
        progress(checked)
        verdict.add(checked)
    if target.shards and not verdict.num_samples and not verdict.faults:
        where = target.shards[0].url
        verdict.faults.append(Fault(where, str(no_samples(where, len(target.shards))).removeprefix(f"{where}: ")))
    return verdict


def checked_on_threads(
    shards: Sequence[LocatedShard], depth: Depth, key_at: KeyAt = KeyAt.FIRST_DOT
) -> Iterator[CheckedShard]:
    """The results of reading shards on threads of this process, in the order of the shards."""
    with TaskThreads(depth.num_threads, "verify") as pool:
        yield from map_in_order(
            pool, lambda shard: check_shard(shard, depth, key_at), shards, window=2 * depth.num_threads
        )


def _is_view(storage: Storage) -> bool:
    if storage.uri.split("/")[-2:-1] != [VIEWS]:
        return False
    with contextlib.suppress(HeadraceError):
        return bool(read_view(storage).snapshot.totals)
    return False


def _target_of_folder(folder: ShardFolder) -> Target:
    """The shards of the newest snapshot; the faults of all snapshots, and of the files that the newest one names."""
    faults: list[Fault] = []
    newest: tuple[NumberedSnapshot, ShardTable] | None = None
    for number in folder.numbers:
        name = f"{folder.storage.uri}/snapshots/{number:08d}.json"
        try:
            numbered = folder.snapshot(number)
            newest = numbered, read_table(folder.storage, numbered.snapshot)
        except HeadraceError as error:
            newest = None
            faults.append(Fault(name, str(error)))
    if newest is None:
        return Target((), tuple(faults))
    numbered, table = newest
    counts = table.num_samples.tolist()
    shards = [
        LocatedShard(folder.storage, name, count, is_built=True)
        for name, count in zip(table.names(), counts, strict=True)
    ]
    faults += faults_below(folder.storage, numbered, table)
    faults += [Fault(f"{folder.storage.uri}/{name}", DAMAGED) for name in damaged_centroids(folder.storage)]
    faults += faults_of_older(folder)
    return Target(tuple(shards), tuple(faults))
