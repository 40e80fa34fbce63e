"""Decides from the newest snapshot alone that every partition of a shard folder is up to date.

`headrace.assemble.staleness` decides about each partition from its manifest. Where nothing has changed, the snapshot
and its table of shards say all that the manifests say, so no manifest is read.
"""

from collections.abc import Mapping

from headrace.assemble.staleness import plan_build
from headrace.errors import FormatError, NotFoundError
from headrace.format.indexes.index import files_of_shard
from headrace.format.manifests.manifests import ManifestSummary
from headrace.format.shards.condemned import lasting_sizes
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import Snapshot, read_snapshot, read_table
from headrace.stores.storage import Storage


def unchanged_manifests(
    storage: Storage, wanted: Mapping[str, str], manifests: Mapping[str, ManifestSummary]
) -> Mapping[str, ManifestSummary] | None:
    """The newest manifests, if all partitions are up to date, whole, and in the newest snapshot; None otherwise.

    Args:
        storage: the shard folder.
        wanted: partition → `Manifest.wanted` of its up-to-date shards, for all partitions of the layout.
        manifests: the newest manifest of every partition that has one.
    """
    plan = plan_build(wanted, manifests)
    if plan.stale:
        return None
    try:
        snapshot = read_snapshot(storage).snapshot
        is_whole = _has_manifests(snapshot, plan.current) and _is_whole(storage, read_table(storage, snapshot))
    except (NotFoundError, FormatError):
        return None
    return plan.current if is_whole else None


def _has_manifests(snapshot: Snapshot, manifests: Mapping[str, ManifestSummary]) -> bool:
    """Whether a snapshot has exactly these manifests, and its table all of their shards."""
    is_bare = any(partition.num_bare for partition in snapshot.partitions.values())
    return not is_bare and snapshot.manifests == {name: found.number for name, found in manifests.items()}


def _is_whole(storage: Storage, table: ShardTable) -> bool:
    """Whether every shard of a table exists in its full size, with its index."""
    sizes: dict[str, int] = {}
    for split in table.splits:
        sizes |= lasting_sizes(storage, f"{table.prefix}{split}_")
    shards = zip(table.names(), table.num_bytes.tolist(), strict=True)
    return all(sizes.get(name) == size and all(one in sizes for one in files_of_shard(name)) for name, size in shards)
