"""Exports a snapshot as the plain WebDataset that other tools expect: `train_000000.tar`, …, and `sizes.json`.

Tars are hard links on one local disk, copies otherwise; their content is not read. Which files in the target belong to
an earlier export is decided by `export_mark`.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import ConfigError
from headrace.format.indexes.index_files import delete_index, read_index, write_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.sizes_file import write_sizes
from headrace.format.snapshots.snapshots import read_snapshot, snapshot_numbers
from headrace.locate.outputs import table_of_tars
from headrace.stores.client_errors import translated_errors
from headrace.stores.storage import Storage
from headrace.upkeep.export_mark import own_tars, write_mark


@dataclass(frozen=True, slots=True)
class ExportedShard:
    """One shard of an export.

    Attributes:
        source: name in the snapshot.
        target: name in the export.
        num_samples: number of samples.
        num_bytes: size in bytes.
    """

    source: str
    target: str
    num_samples: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Export:
    """The result of an export.

    Attributes:
        snapshot: number of the snapshot.
        shards: the exported shards.
        num_linked: number of shards that are hard links; the others are copies.
        num_removed: number of removed shards of an earlier export.
    """

    snapshot: int
    shards: tuple[ExportedShard, ...]
    num_linked: int
    num_removed: int


def plan_export(table: ShardTable, split: str | None) -> list[ExportedShard]:
    """The shards of a snapshot with their names in the export, numbered within their split. Pure."""
    numbers: Counter[str] = Counter()
    planned = []
    for row in range(len(table))[table.rows_of(split)]:
        own = table.splits[table.split[row]]
        name = f"{table.prefix}{own}_{numbers[own]:06d}.tar"
        numbers[own] += 1
        planned.append(ExportedShard(table.name(row), name, int(table.num_samples[row]), int(table.num_bytes[row])))
    return planned


def export_snapshot(
    source: Storage,
    target: Storage,
    *,
    number: int | None = None,
    split: str | None = None,
    progress: Callable[[ExportedShard], None] = lambda shard: None,  # noqa: ARG005
) -> Export:
    """Export a snapshot of a shard folder to another folder; `sizes.json` is written last.

    A target with an earlier export is updated: each file is replaced as a whole, and files that are no longer wanted
    are removed at the end. The mark lists all of them before the first one is changed, so an interrupted export can be
    continued, and files that no export wrote stay.

    Args:
        source: the shard folder.
        target: the folder to export to.
        number: number of the snapshot; None for the newest.
        split: only this split; None for all.
        progress: called after each shard.

    Raises:
        NotFoundError: the folder has no such snapshot.
        ConfigError: there is no such split, the shards are columns, or the target holds files that no export wrote.
        FormatError: the target's mark cannot be read.
    """
    numbered = read_snapshot(source, number)
    shards = plan_export(table_of_tars(source, numbered, split)[0], split)
    if snapshot_numbers(target):
        raise ConfigError(f"{target.uri}: is a shard folder that Headrace builds; export to another folder")
    former = own_tars(target, (shard.target for shard in shards))
    wanted = {shard.target: (shard.num_bytes,) for shard in shards}
    write_mark(target, {name: (*former.get(name, ()), *wanted.get(name, ())) for name in former | wanted})
    num_linked = 0
    for shard in shards:
        num_linked += _place(source, target, shard)
        progress(shard)
    write_sizes(target, ((shard.target, shard.num_samples) for shard in shards))
    num_removed = _remove(target, former.keys() - wanted.keys())
    write_mark(target, wanted)
    return Export(numbered.number, tuple(shards), num_linked, num_removed)


def _remove(target: Storage, surplus: Iterable[str]) -> int:
    """Remove tars that are no longer wanted, and return how many there were."""
    num_removed = 0
    for name in sorted(surplus):
        num_removed += target.exists(name)
        delete_index(target, name)
        target.delete(name)
    return num_removed


def _place(source: Storage, target: Storage, shard: ExportedShard) -> bool:
    """Link or copy one shard, and write its index last. Returns whether the tar is a hard link."""
    delete_index(target, shard.target)
    linked = _is_linked(source, target, shard)
    if not linked:
        with source.open(shard.source) as file:
            target.write(shard.target, file)
    index = read_index(source, shard.source)
    write_index(target, shard.target, replace(index, shard=shard.target))
    return linked


def _is_linked(source: Storage, target: Storage, shard: ExportedShard) -> bool:
    """Hard-link a shard if both folders are on one local disk. Returns whether that was possible."""
    tar, link = source.local_path(shard.source), target.local_path(shard.target)
    if tar is None or link is None:
        return False
    source.size(shard.source)  # raises an error with the shard's name if it is gone
    with translated_errors(shard.target, target.uri):
        return _link(tar, link)


def _link(source: Path, target: Path) -> bool:
    """Replace `target` by a hard link to `source`, atomically. Returns whether the disk could do it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.headrace-tmp")
    try:
        temporary.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or a file system without hard links
        return False
    try:
        # Renaming one link of a file over another link of it does nothing and leaves both (POSIX).
        if target.exists() and temporary.samefile(target):
            return True
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True
