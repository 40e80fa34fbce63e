"""Drafts the next snapshot from the newest one and the manifests that changed since.

A draft reads the changed manifests, and the parts of the table of shards that these change; nothing else. Nothing is
written here: `commits` does that.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import BuildError, FormatError, NotFoundError
from headrace.format.manifests.manifests import KnownManifest, Manifest, bucket_of, split_of
from headrace.format.snapshots.shard_table import ShardTable, joined_table
from headrace.format.snapshots.sizes_file import sizes_lines
from headrace.format.snapshots.snapshots import FrozenPartition, Snapshot, SplitTotals, TablePart

_PART_ROWS = 16384  # of a part, about: 573 kB
_PATIENCE = 2  # parts of up to this many times more or fewer buckets than they should have are kept


@dataclass(frozen=True, slots=True)
class Draft:
    """The next snapshot, before it is committed.

    Attributes:
        snapshot: the snapshot.
        new_parts: path → content of the parts of its table that do not exist yet.
        changed: partitions that the newest snapshot lacks, or has with another manifest.
    """

    snapshot: Snapshot
    new_parts: dict[str, bytes]
    changed: tuple[str, ...]


@dataclass(slots=True)
class Drafting:
    """Sources of a draft.

    Attributes:
        base: the newest snapshot; None for the first one.
        manifests: partition → its manifest.
        read_manifest: reads the manifest of a partition.
        read_part: reads a part of the table of `base`.
        is_sound: whether the file of a part of `base` exists in its full size, and stays.
        free_name: a file name for a new part, given its first partition and digest.
    """

    base: Snapshot | None
    manifests: Mapping[str, KnownManifest]
    read_manifest: Callable[[str], Manifest]
    read_part: Callable[[TablePart], ShardTable]
    is_sound: Callable[[TablePart], bool]
    free_name: Callable[[str, str], str]
    _tables: dict[str, ShardTable] = field(default_factory=dict)  # of partitions that changed
    _parts: dict[str, ShardTable | None] = field(default_factory=dict)  # of `base`, by first partition

    def draft(self, catalog: str, origin: Mapping[str, Any]) -> Draft:
        """The next snapshot. The errors are those of `read_manifest`."""
        partitions = self._partitions()
        per_part = partitions_per_part(partitions, self.base)
        parts, new_parts = self._all_parts(partitions, per_part)
        snapshot = Snapshot(
            catalog=catalog,
            partitions=partitions,
            splits=_split_totals(partitions),
            parts=parts,
            partitions_per_part=per_part,
            fingerprint=fingerprint_of(partitions),
            origin=dict(origin),
        )
        return Draft(snapshot, new_parts, tuple(self._tables))

    def _partitions(self) -> dict[str, FrozenPartition]:
        """Entry of each partition in the snapshot; manifests are read one at a time."""
        old = self.base.partitions if self.base else {}
        partitions = {}
        for name, found in sorted(self.manifests.items()):
            kept = old.get(name)
            if kept is None or (kept.number, kept.digest) != (found.number, found.digest):
                manifest = self.read_manifest(name)
                self._tables[name] = table_of(manifest)
                kept = _frozen(found, manifest, self._tables[name])
            partitions[name] = kept
        return partitions

    def _all_parts(
        self, partitions: Mapping[str, FrozenPartition], per_part: int
    ) -> tuple[tuple[TablePart, ...], dict[str, bytes]]:
        """The parts of the table in order, and the content of the new ones by path."""
        is_alike = self.base is not None and self.base.partitions_per_part == per_part
        known = {part.first: part for part in self.base.parts} if self.base and is_alike else {}
        before = groups_of(self.base.partitions, per_part) if self.base and is_alike else {}
        parts, contents = [], {}
        for first, members in groups_of(partitions, per_part).items():
            is_kept = before.get(first) == members and not any(name in self._tables for name in members)
            if is_kept and self.is_sound(known[first]):
                parts.append(known[first])
            else:
                rows = sum(partitions[name].num_shards for name in members)
                part, blob = self._new_part(first, joined_table(map(self._rows, members), rows))
                parts.append(part)
                contents[part.path] = blob
        return tuple(parts), contents

    def _new_part(self, first: str, table: ShardTable) -> tuple[TablePart, bytes]:
        blob, lines = table.to_bytes(), sizes_lines(table)
        digest = hashlib.sha256(blob).hexdigest()
        part = TablePart(
            name=self.free_name(first, digest),
            first=first,
            sha256=digest,
            num_bytes=len(blob),
            num_shards=len(table),
            sizes_bytes=len(lines),
            sizes_sha256=hashlib.sha256(lines).hexdigest(),
        )
        return part, blob

    def _rows(self, partition: str) -> ShardTable:
        """The shards of a partition: from its manifest if it changed, else from the newest snapshot's table."""
        if partition not in self._tables:
            part = self._old_part(partition)
            return table_of(self.read_manifest(partition)) if part is None else part.of_bucket(bucket_of(partition))
        return self._tables[partition]

    def _old_part(self, partition: str) -> ShardTable | None:
        """The part of the newest snapshot's table with a partition; None if it is damaged or missing."""
        assert self.base is not None  # without a newest snapshot, all partitions changed
        first = first_of(partition, self.base.partitions_per_part)
        if first not in self._parts:
            (part,) = (part for part in self.base.parts if part.first == first)
            try:
                self._parts[first] = self.read_part(part)
            except (FormatError, NotFoundError):
                self._parts[first] = None
        return self._parts[first]


def made_again(snapshot: Snapshot, part: TablePart, read_manifest: Callable[[str], Manifest]) -> bytes:
    """The bytes of a part of a snapshot's table, from the manifests.

    Raises:
        BuildError: the manifests have other shards than the snapshot.
    """
    members = groups_of(snapshot.partitions, snapshot.partitions_per_part)[part.first]
    rows = joined_table((table_of(read_manifest(name)) for name in members), part.num_shards)
    blob = rows.to_bytes()
    if hashlib.sha256(blob).hexdigest() != part.sha256:
        raise BuildError(f"{part.path}: is lost, and the manifests name other shards; restore it from a copy")
    return blob


def table_of(manifest: Manifest) -> ShardTable:
    """The shards with samples of one partition."""
    return ShardTable.from_entries([shard for shard in manifest.shards if shard.num_samples])


def groups_of(partitions: Mapping[str, FrozenPartition], per_part: int) -> dict[str, list[str]]:
    """First partition of a part → the partitions with shards in it; all in the order of the table."""
    groups: dict[str, list[str]] = {}
    for name in sorted(partitions, key=lambda name: (split_of(name), bucket_of(name))):
        if partitions[name].num_shards:
            groups.setdefault(first_of(name, per_part), []).append(name)
    return groups


def first_of(partition: str, per_part: int) -> str:
    """The first partition that belongs in the same part of the table as this one."""
    return f"{split_of(partition)}-{bucket_of(partition) // per_part * per_part:04d}"


def partitions_per_part(partitions: Mapping[str, FrozenPartition], base: Snapshot | None) -> int:
    """Number of consecutive buckets whose shards share a part: a power of two.

    The number of the newest snapshot is kept as long as it is about right, because another one changes all parts.
    """
    counts = [found.num_shards for found in partitions.values() if found.num_shards]
    wanted = 1 << max(0, int(math.log2(_PART_ROWS * len(counts) / sum(counts)))) if counts else 1
    before = base.partitions_per_part if base and base.parts else 0
    return before if wanted <= before * _PATIENCE and before <= wanted * _PATIENCE else wanted


def fingerprint_of(partitions: Mapping[str, FrozenPartition]) -> str:
    """See `Snapshot.fingerprint`; it does not depend on how the table is divided into parts."""
    lines = [f"{name} {found.rows}\n" for name, found in sorted(partitions.items()) if found.num_shards]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _frozen(found: KnownManifest, manifest: Manifest, table: ShardTable) -> FrozenPartition:
    return FrozenPartition(
        number=found.number,
        wanted=manifest.wanted,
        digest=found.digest,
        rows=hashlib.sha256(table.to_bytes()).hexdigest() if len(table) else "",
        num_shards=len(table),
        num_bare=len(manifest.shards) - len(table),
        num_samples=int(table.num_samples.sum()),
        num_bytes=int(table.num_bytes.sum()),
        seconds=round(sum(shard.seconds for shard in manifest.shards if shard.num_samples), 6),
        num_rejected=len(manifest.refused),
    )


def _split_totals(partitions: Mapping[str, FrozenPartition]) -> dict[str, SplitTotals]:
    by_split: dict[str, list[FrozenPartition]] = {}
    for name, found in partitions.items():
        by_split.setdefault(split_of(name), []).append(found)
    return {split: _totals(found) for split, found in sorted(by_split.items())}


def _totals(partitions: Collection[FrozenPartition]) -> SplitTotals:
    return SplitTotals(
        num_shards=sum(found.num_shards for found in partitions),
        num_samples=sum(found.num_samples for found in partitions),
        num_bytes=sum(found.num_bytes for found in partitions),
        seconds=round(sum(found.seconds for found in partitions), 6),
    )
