"""Compares a snapshot with all that it names, from the snapshot down, and finds snapshots and views that are missing.

Only lists, manifests and sizes are read here. `verify` reads the shards.
"""

import contextlib
from collections.abc import Iterator
from itertools import pairwise

from headrace.catalog.stored.header import HEADER_PATH
from headrace.errors import HeadraceError, NotFoundError
from headrace.format.beside.view_files import TOTALS_SUFFIX, read_view
from headrace.format.beside.views import VIEWS
from headrace.format.manifests.manifests import (
    Manifest,
    is_shard_name,
    manifest_path,
    newest_entries,
    read_listed,
    read_manifest,
)
from headrace.format.manifests.planned_keys import keys_fault
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import (
    AUDIO_SNAPSHOT,
    SNAPSHOTS,
    FrozenPartition,
    NumberedSnapshot,
    read_table,
    snapshot_numbers,
    snapshot_path,
)
from headrace.locate.outputs import AUDIO, COLUMNS, LATENTS, ShardFolder, view_folders
from headrace.stores.storage import Storage
from headrace.verification.audit import snapshot_faults
from headrace.verification.shard_check import Fault


def faults_below(storage: Storage, numbered: NumberedSnapshot, table: ShardTable) -> Iterator[Fault]:
    """Disagreements between a snapshot and what it names: `sizes.json`, totals, manifests and the table of shards."""
    try:
        yield from (Fault(storage.uri, fault) for fault in snapshot_faults(storage, numbered.snapshot))
    except NotFoundError:
        yield Fault(f"{storage.uri}/sizes.json", "missing; the next build writes it")
    except (ValueError, AttributeError, TypeError) as error:
        yield Fault(f"{storage.uri}/sizes.json", f"not an object of counts ({error}); the next build writes it again")
    where = f"{storage.uri}/snapshots/{numbered.number:08d}.json"
    if numbered.snapshot.num_samples != int(table.num_samples.sum()):
        yield Fault(
            where, f"its totals count {numbered.snapshot.num_samples} samples, its table {table.num_samples.sum()}"
        )
    yield from _faults_of_keys(storage)
    named = _named_by_manifests(storage, numbered)
    if isinstance(named, Fault):
        yield named
    elif named != set(table.names()):
        yield Fault(where, f"its manifests and its table name other shards: {sorted(named ^ set(table.names()))[:3]}")


def _faults_of_keys(storage: Storage) -> Iterator[Fault]:
    """Missing and damaged files of planned keys of the newest manifests, which the next builds read."""
    for partition, (number, entry) in sorted(newest_entries(storage).items()):
        try:
            found = read_listed(storage, partition, number, entry)
            fault = None if found is None else keys_fault(storage, found)
        except HeadraceError as error:
            fault = str(error)
        if fault is not None:
            yield Fault(f"{storage.uri}/manifests/{partition}", fault)


def _named_by_manifests(storage: Storage, numbered: NumberedSnapshot) -> set[str] | Fault:
    """Names of the shards with samples in the manifests of a snapshot, whose digests are compared with the snapshot."""
    names: set[str] = set()
    for partition, frozen in numbered.snapshot.partitions.items():
        found = _manifest(storage, partition, frozen)
        if isinstance(found, Fault):
            return found
        names |= {shard.name for shard in found.shards if shard.num_samples}
    return names


def _manifest(storage: Storage, partition: str, frozen: FrozenPartition) -> Manifest | Fault:
    """A manifest that a snapshot names, or what is wrong with it."""
    where = f"{storage.uri}/{manifest_path(partition, frozen.number)}"
    try:
        found = read_manifest(storage, partition, frozen.number)
    except NotFoundError:
        return Fault(f"{storage.uri}/manifests/{partition}", f"manifest {frozen.number} is missing; restore it")
    except HeadraceError as error:
        return Fault(where, str(error))
    if found.digest != frozen.digest:
        return Fault(where, "has another digest than in its snapshot: it was replaced; restore it")
    return found.manifest


def faults_of_older(folder: ShardFolder) -> Iterator[Fault]:
    """Faults of older snapshots: their manifests, shards that are missing or of another size, missing numbers."""
    storage = folder.storage
    sizes = {entry.path: entry.num_bytes for entry in storage.list() if is_shard_name(entry.path)}
    compared = set[tuple[str, FrozenPartition]]()
    for number in folder.numbers[:-1]:
        try:
            snapshot = folder.snapshot(number).snapshot
            table = read_table(storage, snapshot)
        except HeadraceError:  # reported with its snapshot
            continue
        for partition, frozen in snapshot.partitions.items():
            if (partition, frozen) not in compared and isinstance(
                fault := _manifest(storage, partition, frozen), Fault
            ):
                yield fault
            compared.add((partition, frozen))
        named = zip(table.names(), table.num_bytes.tolist(), strict=True)
        lost = [name for name, num_bytes in named if sizes.get(name) != num_bytes]
        if lost and storage.exists(snapshot_path(number)):  # not removed by a gc since
            what = f"{len(lost)} of its shards are missing or have another size, the first is {lost[0]}; restore them"
            yield Fault(f"{storage.uri}/{snapshot_path(number)}", what)
    if folder.name.startswith((LATENTS, COLUMNS)):
        yield from gaps(folder)


def gaps(folder: ShardFolder) -> Iterator[Fault]:
    """Missing numbers between the snapshots of latents, columns or a view.

    A gc removes the oldest ones first. Only of audio may it keep one before others that it removes, for latents that
    need it.
    """
    for before, after in pairwise(folder.numbers):
        if after > before + 1:
            where = f"{folder.storage.uri}/{snapshot_path(before + 1)}"
            yield Fault(where, f"missing, though the snapshots {before} and {after} are there; restore it")


def lost_snapshots(storage: Storage) -> Iterator[Fault]:
    """The fault of a shard folder that had a snapshot, since `sizes.json` is written after it, and has none now."""
    if snapshot_numbers(storage) or not newest_entries(storage) or not storage.exists("sizes.json"):
        return
    yield Fault(f"{storage.uri}/{SNAPSHOTS}", "no snapshot is there, but its sizes.json: restore it, or build again")


def lost_columns(output: Storage) -> Iterator[Fault]:
    """The faults of sets of columns that a view reads, and that have no snapshot."""
    wanted = dict[str, str]()
    for view in view_folders(output):
        with contextlib.suppress(HeadraceError):  # reported with the view
            wanted |= {found.set: view.name for found in read_view(view.storage).snapshot.columns}
    for name, reader in wanted.items():
        folder = output.at(f"{COLUMNS}/{name}")
        if not snapshot_numbers(folder):
            yield Fault(folder.uri, f"no snapshot is there, though {reader} reads it; restore it, or build again")


def lost_view(storage: Storage) -> Iterator[Fault]:
    """The fault of a view without a snapshot, whose other files are there."""
    paths = [entry.path for entry in storage.list(SNAPSHOTS)]
    if any(path.endswith(TOTALS_SUFFIX) for path in paths) and not snapshot_numbers(storage):
        yield Fault(f"{storage.uri}/{SNAPSHOTS}", "no snapshot of the view is there, but its totals; build it again")


def faults_of_origin(output: Storage, folder: ShardFolder) -> Iterator[Fault]:
    """Faults of the audio snapshots that snapshots of latents, columns or a view name: missing, or in another order.

    The newest snapshot must have its audio, which a gc keeps. Latents and columns that were copied alone, without the
    output's audio and catalog, need none.
    """
    audio, before = output.at(AUDIO), 0
    known = snapshot_numbers(audio)
    is_copied = not known and not folder.name.startswith(f"{VIEWS}/") and not output.exists(HEADER_PATH)
    for number in folder.numbers:
        where = f"{folder.storage.uri}/{snapshot_path(number)}"
        try:
            wanted = _audio_of(folder, number)
        except HeadraceError:  # reported with the folder
            continue
        if wanted is None:
            continue
        if wanted < before:
            yield Fault(where, f"is of audio snapshot {wanted}, the one before it of {before}; restore both")
        before = wanted
        if number == folder.numbers[-1] and wanted not in known and not is_copied:
            yield Fault(where, f"its audio snapshot {wanted} is missing in {audio.uri}; restore it, or build again")


def _audio_of(folder: ShardFolder, number: int) -> int | None:
    """Number of the audio snapshot of a snapshot of latents, columns or a view."""
    if folder.name.startswith(f"{VIEWS}/"):
        return read_view(folder.storage, number).snapshot.audio_snapshot
    return folder.snapshot(number).snapshot.origin.get(AUDIO_SNAPSHOT)
