"""A snapshot laid out as the plain WebDataset that other tools expect: `train_000000.tar`, …, and `sizes.json`.

Owns names and placing: hard links on one local disk, copies otherwise. The shards themselves are not looked into; what
in a target is an export's own says `export_mark`.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import ConfigError
from headrace.export_mark import own_tars, write_mark
from headrace.index import ShardIndex, index_name
from headrace.manifests import json_bytes
from headrace.snapshots import ShardTable, read_snapshot, read_table, snapshot_numbers
from headrace.storage import Storage


@dataclass(frozen=True, slots=True)
class ExportedShard:
    """One shard of the plain layout.

    Attributes:
        source: its name in the snapshot.
        target: its plain name.
        num_samples: samples in it.
        num_bytes: its size.
    """

    source: str
    target: str
    num_samples: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Export:
    """What an export came to.

    Attributes:
        snapshot: number of the snapshot.
        shards: what was laid out.
        num_linked: how many of them are hard links; the others are copies.
        num_removed: shards of a former export that this one does not have.
    """

    snapshot: int
    shards: tuple[ExportedShard, ...]
    num_linked: int
    num_removed: int


def plan_export(table: ShardTable, split: str | None) -> list[ExportedShard]:
    """Names for the shards of a snapshot, numbered within their split. Pure."""
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
    """Lay out a snapshot of a shard folder in another folder; `sizes.json` is written last.

    A target that holds a former export is brought up to date: each file is replaced whole, those that are no longer
    wanted are removed at the end. The mark names all of them before the first is touched, so an export that was cut off
    is gone on with, and what no export wrote stays.

    Raises:
        NotFoundError: the folder has no such snapshot.
        ConfigError: there is no such split, or the target holds what no export wrote.
        FormatError: the target's mark cannot be read.
    """
    numbered = read_snapshot(source, number)
    if split is not None and split not in numbered.snapshot.splits:
        there = sorted(numbered.snapshot.splits)
        raise ConfigError(f"{source.uri}: no split {split!r} in snapshot {numbered.number}; there are {there}")
    shards = plan_export(read_table(source, numbered.snapshot), split)
    if snapshot_numbers(target):
        raise ConfigError(f"{target.uri}: is a shard folder that Headrace builds; export to another one")
    former = own_tars(target, (shard.target for shard in shards))
    wanted = {shard.target: (shard.num_bytes,) for shard in shards}
    write_mark(target, {name: (*former.get(name, ()), *wanted.get(name, ())) for name in former | wanted})
    num_linked = 0
    for shard in shards:
        num_linked += _place(source, target, shard)
        progress(shard)
    target.write("sizes.json", json_bytes({shard.target: shard.num_samples for shard in shards}))
    num_removed = _remove(target, former.keys() - wanted.keys())
    write_mark(target, wanted)
    return Export(numbered.number, tuple(shards), num_linked, num_removed)


def _remove(target: Storage, surplus: Iterable[str]) -> int:
    """Remove tars that are no longer wanted. Returns how many there were."""
    num_removed = 0
    for name in sorted(surplus):
        num_removed += target.exists(name)
        target.delete(index_name(name))
        target.delete(name)
    return num_removed


def _place(source: Storage, target: Storage, shard: ExportedShard) -> bool:
    """Put one shard and its index in place, the index last. Returns whether the tar is a hard link."""
    target.delete(index_name(shard.target))
    linked = _link(source.local_path(shard.source), target.local_path(shard.target))
    if not linked:
        with source.open(shard.source) as file:
            target.write(shard.target, file)
    path = index_name(shard.source)
    index = ShardIndex.from_bytes(source.read(path), path)
    target.write(index_name(shard.target), replace(index, shard=shard.target).to_bytes())
    return linked


def _link(source: Path | None, target: Path | None) -> bool:
    """Hard-link a file over another name, atomically. Returns whether it could be done."""
    if source is None or target is None:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.headrace-tmp")
    try:
        temporary.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or a file system without links
        return False
    try:
        # Renaming one link of a file over another link of it does nothing and leaves both (POSIX).
        if target.exists() and temporary.samefile(target):
            return True
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True
