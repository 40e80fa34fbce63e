"""Finds partitions whose manifest names missing shards, a few partitions at a time.

Compares listings with the newest manifests. Only names and sizes of files are read, not the shards.
"""

from collections.abc import Callable, Mapping, Sequence

from headrace.format.condemned import lasting_sizes
from headrace.format.manifests import newest_manifest
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
    listings: dict[str, dict[str, int]] = {}
    missing: list[FolderPartition] = []
    for count, place in enumerate(places):
        if count and not is_time_left():
            return missing, count
        if not _is_whole(folders[place[0]], place, listings):
            missing.append(place)
    return missing, len(places)


def folder_mark(folders: Mapping[str, Storage]) -> str:
    """A text that changes when a file is added to or removed from a folder; empty for object stores."""
    local = [path for storage in folders.values() if (path := storage.local_path("sizes.json")) is not None]
    return " ".join(str(path.parent.stat().st_mtime_ns) for path in local if path.parent.is_dir())


def _is_whole(storage: Storage, place: FolderPartition, listings: dict[str, dict[str, int]]) -> bool:
    """Whether all files of a partition's newest manifest exist. A partition without a manifest is complete."""
    name, partition = place
    found = newest_manifest(storage, partition)
    if found is None or not found.manifest.shards:
        return True
    if storage.local_path("sizes.json") is None:
        prefix = found.manifest.shards[0].name.rpartition("_")[0] + "_"
        return found.manifest.is_whole(lasting_sizes(storage, prefix))
    if name not in listings:  # listing a part of a local folder reads all of it
        listings[name] = lasting_sizes(storage)
    return found.manifest.is_whole(listings[name])
