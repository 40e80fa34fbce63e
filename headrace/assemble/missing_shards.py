"""Finds partitions whose manifest names missing shards, a few partitions at a time.

Compares files with the newest manifests. Only names and sizes of files are read, not the shards.
"""

from collections.abc import Callable, Mapping, Sequence

from headrace.format.manifests.manifests import newest_manifest
from headrace.format.shards.shard_files import sizes_of_shards
from headrace.stores.storage import Storage

FolderPartition = tuple[str, str]
"""Name of a shard folder, and a partition."""


def look(
    folders: Mapping[str, Storage], places: Sequence[FolderPartition], is_time_left: Callable[[], bool]
) -> tuple[list[FolderPartition], int]:
    """Check partitions in order as long as there is time, but at least one.

    Args:
        folders: shard folders by name.
        places: the partitions to check, in order.
        is_time_left: called before each partition but the first.

    Returns:
        The partitions of which a shard or index is missing or has another size, and the number of checked partitions.
    """
    missing: list[FolderPartition] = []
    for count, (folder, partition) in enumerate(places):
        if count and not is_time_left():
            return missing, count
        if not _is_whole(folders[folder], partition):
            missing.append((folder, partition))
    return missing, len(places)


def folder_mark(folders: Mapping[str, Storage]) -> str:
    """A text that changes when a file is added to or removed from a folder; empty for object stores."""
    local = [path for storage in folders.values() if (path := storage.local_path("sizes.json")) is not None]
    return " ".join(str(path.parent.stat().st_mtime_ns) for path in local if path.parent.is_dir())


def _is_whole(storage: Storage, partition: str) -> bool:
    """Whether all files of a partition's newest manifest exist. A partition without a manifest is complete."""
    found = newest_manifest(storage, partition)
    if found is None or not found.manifest.shards:
        return True
    names = [shard.name for shard in found.manifest.shards]
    prefix = names[0].rpartition("_")[0] + "_"
    return found.manifest.is_whole(sizes_of_shards(storage, prefix, names))
