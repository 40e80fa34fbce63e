"""Removes what no kept snapshot needs: old snapshots, their manifests and shards, and temporary files of dead writers.

Readers, running builds and a crash survive it, because of the order of its steps: a record of all files to delete is
written; what is needed is determined once more; then files that name others are deleted before the files they name, and
an index before its tar (docs/design/0036-gc-announces-deletions.md). Files younger than a day stay: a build
writes shards before the manifest that names them, and would have to make them again.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from headrace.errors import BuildError, ConfigError, NotFoundError
from headrace.format.beside.view_files import read_view
from headrace.format.beside.views import NumberedView
from headrace.format.indexes.index import INDEX_SUFFIX, SHARD_SUFFIXES
from headrace.format.indexes.index_files import is_index_file
from headrace.format.manifests.manifests import (
    KEYS_SUFFIX,
    is_shard_name,
    manifest_path,
    newest_entries,
    numbered_keys,
    read_listed,
)
from headrace.format.shards.condemned import condemnations, condemned
from headrace.format.snapshots.snapshots import (
    NumberedSnapshot,
    proposals,
    proposed_snapshots,
    read_part,
    read_snapshot,
    snapshot_numbers,
    snapshot_path,
)
from headrace.format.tars.tar_names import TAR_SUFFIX
from headrace.locate.outputs import AUDIO, ITSELF, ShardFolder, possible_folders, shard_folders, view_folders
from headrace.stores.storage import LocalStorage, Storage, StoredObject

MIN_AGE_SECONDS = 24 * 3600.0
RECORD_AGE_SECONDS = 30 * MIN_AGE_SECONDS
_MANIFEST, _INDEX, _SHARD = 2, 3, 4  # positions in the order of removal
_LONGEST_SECONDS = MIN_AGE_SECONDS  # a gc that was suspended for longer stops deleting


@dataclass(frozen=True, slots=True)
class RetainedFiles:
    """Files of a shard folder or a view that must stay.

    Attributes:
        numbers: numbers of the snapshots.
        snapshots: paths below `snapshots/`.
        manifests: paths below `manifests/`: manifests and files of planned keys.
        shards: names of the shards.
    """

    numbers: frozenset[int]
    snapshots: frozenset[str]
    manifests: frozenset[str]
    shards: AbstractSet[str]


@dataclass(frozen=True, slots=True)
class Garbage:
    """Files of a shard folder that can be removed, in the order of removal.

    Attributes:
        part: name of the folder in its output.
        storage: the folder.
        entries: the files.
        kept: numbers of the snapshots that stay.
        old: numbers of the snapshots that are removed.
        young: numbers of snapshots that stay because they are younger than a day.
        num_young: number of other unneeded files that stay because they are younger than a day.
        unfinished: records of gcs that are running, or were killed on another machine.
        expired: records of gcs that are dead, or considered dead because the record is a month old.
    """

    part: str
    storage: Storage
    entries: tuple[StoredObject, ...]
    kept: tuple[int, ...]
    old: frozenset[int] = frozenset()
    young: tuple[int, ...] = ()
    num_young: int = 0
    unfinished: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Names of the files."""
        return [entry.path for entry in self.entries]


def find_garbage(
    output: Storage, *, keep: int, now_seconds: float, min_age_seconds: float = MIN_AGE_SECONDS
) -> list[Garbage]:
    """Find the files that can be removed from the shard folders of an output.

    These stay: the newest `keep` snapshots of each folder, snapshots younger than a day, audio snapshots that kept
    latents, columns and views were made from, all shards that these snapshots or the newest manifest of any partition
    name, and every file younger than a day. A partition that was built before the newest snapshot, which lacks it, is
    no longer in the YAML: its newest manifest keeps nothing.

    Args:
        output: the output of a data set.
        keep: how many snapshots to keep, at least 1.
        now_seconds: the current Unix time.
        min_age_seconds: younger files and snapshots stay; 0 or less only while no build is running.

    Raises:
        ConfigError: `keep` is less than 1, or `output` is a shard folder: what the latents of its output need is then
            not known.
    """
    parts = shard_folders(output)
    if any(part.name == ITSELF for part in parts):
        raise ConfigError(f"{output.uri}: is one shard folder of an output; name the output itself")
    if keep < 1:
        raise ConfigError(f"--keep {keep}: expected at least 1; without a snapshot there is no data set")
    parts += view_folders(output)
    oldest_young = now_seconds - min_age_seconds  # files that were written before are old
    past = {part.name: _past(part, keep, oldest_young) for part in parts}
    kept = _kept(output, past)
    young = {part.name: sorted(set(part.numbers[:-keep]) - past[part.name]) for part in parts}
    times = (oldest_young, now_seconds)
    return [_garbage(part, past[part.name], kept[part.name], young[part.name], times) for part in parts]


def collect(
    output: Storage,
    found: Sequence[Garbage],
    progress: Callable[[StoredObject], None] = lambda entry: None,  # noqa: ARG005
    clock: Callable[[], float] = time.time,
) -> dict[str, list[StoredObject]]:
    """Remove the files that `find_garbage` found, except those that have become needed since.

    Args:
        output: the output of a data set.
        found: the files.
        progress: called after each removed file.
        clock: gives the current Unix time.

    Returns:
        The removed files, by part.

    Raises:
        BuildError: the removal took longer than a day; run it again.
    """
    began = clock()
    removed: dict[str, list[StoredObject]] = {garbage.part: [] for garbage in found}
    with contextlib.ExitStack() as stack:
        for garbage in found:
            if garbage.entries:
                stack.enter_context(condemned(garbage.storage, garbage.paths))
        kept = _kept(output, {garbage.part: garbage.old for garbage in found})  # only now, see `format.condemned`
        for garbage in found:
            for entry in _unneeded(garbage.entries, kept[garbage.part]):
                if clock() - began > _LONGEST_SECONDS:
                    raise BuildError(f"{garbage.storage.uri}: gc has been running for a day; run it again")
                garbage.storage.delete(entry.path)
                removed[garbage.part].append(entry)
                progress(entry)
    for garbage in found:
        for record in garbage.expired:
            garbage.storage.delete(record)
    return removed


def find_leftovers(
    storage: Storage, *, now_seconds: float, min_age_seconds: float = MIN_AGE_SECONDS
) -> list[StoredObject]:
    """Temporary files of writers that died more than a day (`min_age_seconds`) ago, anywhere below a local folder."""
    if not isinstance(storage, LocalStorage):
        return []  # of an object store, no listing has the parts of an unfinished upload
    found = []
    for path in storage.leftovers():
        try:
            entry = storage.stat(path.relative_to(storage.root).as_posix())
        except NotFoundError:  # its writer has finished since
            continue
        if now_seconds - entry.modified_seconds > min_age_seconds:
            found.append(entry)
    return sorted(found, key=lambda entry: entry.path)


def remove_leftovers(storage: Storage, entries: Iterable[StoredObject]) -> None:
    """Remove the files that `find_leftovers` found."""
    for entry in entries:
        storage.delete(entry.path)


def _past(part: ShardFolder, keep: int, oldest_young: float) -> frozenset[int]:
    """Numbers of snapshots that are neither among the newest `keep` nor young."""
    times = {entry.path: entry.modified_seconds for entry in part.storage.list("snapshots/")}
    return frozenset(n for n in part.numbers[:-keep] if times.get(snapshot_path(n), oldest_young) < oldest_young)


def _garbage(
    part: ShardFolder, past: Collection[int], kept: RetainedFiles, young: Collection[int], times: tuple[float, float]
) -> Garbage:
    oldest_young, now_seconds = times
    unneeded = [entry for entry in _unneeded(part.storage.list(), kept) if _is_own(part.storage, entry.path)]
    old = tuple(entry for entry in unneeded if entry.modified_seconds < oldest_young)
    records = condemnations(part.storage)
    expired = [r.path for r in records if r.is_dead or now_seconds - r.modified_seconds > RECORD_AGE_SECONDS]
    return Garbage(
        part=part.name,
        storage=part.storage,
        entries=old,
        kept=tuple(sorted(kept.numbers)),
        old=frozenset(past) - kept.numbers,
        young=tuple(young),
        num_young=len(unneeded) - len(old),
        unfinished=tuple(record.path for record in records if record.path not in expired),
        expired=tuple(expired),
    )


def _is_own(storage: Storage, path: str) -> bool:
    """Whether a file named like an index or shard of Headrace is one: other tools write `.idx` files, too."""
    kind = _kind(path)
    if kind == _INDEX:
        with contextlib.suppress(NotFoundError):  # removed by another gc since it was listed
            return is_index_file(storage, path)
        return False
    return kind != _SHARD or is_shard_name(path)


def _kept(output: Storage, past: Mapping[str, Collection[int]]) -> dict[str, RetainedFiles]:
    """The files that must stay in each shard folder, by the folder's name.

    Args:
        output: the output.
        past: by folder, numbers of the snapshots that stay only if kept latents were computed from them.
    """
    folders = possible_folders(output)
    # Proposals first: one that is gone by then has become a snapshot before the snapshots are listed.
    proposed = {name: proposed_snapshots(folder) for name, folder in folders.items()}
    numbers = {name: snapshot_numbers(folder) for name, folder in folders.items()}
    kept = {
        name: [
            *_snapshots(folder, [number for number in numbers[name] if number not in past.get(name, ())]),
            *(found for found in proposed[name] if found.number > max(numbers[name], default=0)),
        ]
        for name, folder in folders.items()
    }
    views = {part.name: _views(part, past.get(part.name, ())) for part in view_folders(output)}
    needed = {_audio_of(found) for name, snapshots in kept.items() if name != AUDIO for found in snapshots}
    needed |= {view.snapshot.audio_snapshot for found in views.values() for view in found}
    there = {found.number for found in kept[AUDIO]}
    kept[AUDIO] += _snapshots(folders[AUDIO], sorted((needed & set(numbers[AUDIO])) - there))
    of_shards = {name: _kept_of(folder, kept[name], numbers[name]) for name, folder in folders.items()}
    return of_shards | {name: _kept_of_view(found) for name, found in views.items()}


def _snapshots(storage: Storage, numbers: Iterable[int]) -> Iterator[NumberedSnapshot]:
    for number in numbers:
        try:
            yield read_snapshot(storage, number)
        except NotFoundError:  # removed by another gc since it was listed
            continue


def _views(part: ShardFolder, past: Collection[int]) -> list[NumberedView]:
    """The snapshots of a view that stay."""
    found = []
    for number in part.numbers:
        if number not in past:
            with contextlib.suppress(NotFoundError):  # removed by another gc since it was listed
                found.append(read_view(part.storage, number))
    return found


def _kept_of_view(views: Sequence[NumberedView]) -> RetainedFiles:
    """The files that snapshots of a view name. A new snapshot names files of the newest one, and new files."""
    paths = {file.path for view in views for file in view.snapshot.files}
    paths |= {snapshot_path(view.number) for view in views}
    return RetainedFiles(frozenset(view.number for view in views), frozenset(paths), frozenset(), frozenset())


def _audio_of(numbered: NumberedSnapshot) -> int:
    """Number of the audio snapshot that a snapshot of latents was computed from; 0 if it is not recorded."""
    number = numbered.snapshot.origin.get("audio_snapshot")
    return number if isinstance(number, int) else 0


def _kept_of(storage: Storage, snapshots: Sequence[NumberedSnapshot], numbers: Collection[int]) -> RetainedFiles:
    """The files that these snapshots and the newest manifests name. `numbers` are those of committed snapshots."""
    pending = {path for number, path in proposals(storage) if number > max(numbers, default=0)}
    manifests: set[str] = set()
    shards: set[str] = set()
    covered: set[tuple[str, int]] = set()  # manifests whose shards are all in a table that was read
    read: set[str] = set()  # snapshots share parts of their tables
    for found in snapshots:
        parts = [part for part in found.snapshot.parts if part.sha256 not in read]
        try:
            for part in parts:
                shards.update(read_part(storage, part).names())
        except NotFoundError:
            if found.number in numbers and storage.exists(snapshot_path(found.number)):
                raise
            continue  # removed by another gc since, or proposed by a writer that will fail to commit it
        read |= {part.sha256 for part in parts}
        pending |= {snapshot_path(found.number), *(part.path for part in found.snapshot.parts)}
        manifests |= {manifest_path(name, frozen) for name, frozen in found.snapshot.manifests.items()}
        covered |= {(name, frozen.number) for name, frozen in found.snapshot.partitions.items() if not frozen.num_bare}
    newest = newest_entries(storage)
    committed = {found.number: found for found in snapshots if found.number in numbers}
    dropped = set(_dropped(storage, newest, committed[max(committed)])) if committed else set()
    for partition, (number, entry) in newest.items():
        if partition in dropped:
            continue
        manifests.add(entry.path)
        if (partition, number) not in covered and (listed := read_listed(storage, partition, number, entry)):
            manifests.add(manifest_path(partition, listed.number))
            shards |= {shard.name for shard in listed.manifest.shards}
    manifests |= {
        path
        for partition, number, path in numbered_keys(storage)
        if number >= newest.get(partition, (0,))[0] + (partition in dropped)
    }
    return RetainedFiles(frozenset(committed), frozenset(pending), frozenset(manifests), shards)


def _dropped(storage: Storage, newest: Mapping[str, tuple[int, StoredObject]], last: NumberedSnapshot) -> Iterator[str]:
    """Partitions that the last snapshot lacks although they were built before it: the YAML no longer has them."""
    with contextlib.suppress(NotFoundError):  # removed by another gc since it was listed
        committed = storage.stat(snapshot_path(last.number)).modified_seconds
        for partition, (_, entry) in newest.items():
            if partition not in last.snapshot.partitions and entry.modified_seconds < committed:
                yield partition


def _unneeded(entries: Iterable[StoredObject], kept: RetainedFiles) -> Iterator[StoredObject]:
    """Files of Headrace that no kept file needs: snapshots, tables, manifests, indexes, shards, in this order."""
    ranked = (
        (kind, entry.path, entry)
        for entry in entries
        if (kind := _kind(entry.path)) is not None and not _is_needed(kind, entry.path, kept)
    )
    return (entry for _, _, entry in sorted(ranked))


def _is_needed(kind: int, path: str, kept: RetainedFiles) -> bool:
    if kind == _MANIFEST:
        return path in kept.manifests
    if kind == _INDEX:
        return f"{path.removesuffix(INDEX_SUFFIX)}{TAR_SUFFIX}" in kept.shards
    return path in (kept.shards if kind == _SHARD else kept.snapshots)


def _kind(path: str) -> int | None:
    """Position in the order of removal; None for files that gc leaves alone."""
    folder, _, file = path.rpartition("/")
    if folder == "snapshots":
        return {"json": 0, "proposed": 0, "shards": 1, "totals": 1, "counts": 1}.get(file.rpartition(".")[2])
    if folder.startswith("manifests/") and file.endswith((".json", KEYS_SUFFIX)):
        return _MANIFEST
    if folder == "" and file.endswith(INDEX_SUFFIX):
        return _INDEX
    return _SHARD if folder == "" and file.endswith(SHARD_SUFFIXES) else None
