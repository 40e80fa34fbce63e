"""Finds which files of a partition's shards exist and stay, at a cost that does not grow with the data set.

An object store is listed by the partition's prefix. In a local folder, files are looked up by name, because reading a
part of a folder costs as much as reading all of it. A file that a `gc` may delete counts as missing: the deletion
records are read first (docs/design/0036).
"""

import contextlib
from collections.abc import Iterable

from headrace.errors import NotFoundError
from headrace.format.indexes.index import files_of_shard
from headrace.format.manifests.manifests import bucket_of, split_of
from headrace.format.shards.condemned import condemned_paths, lasting_sizes
from headrace.format.shards.journal import forget_missing, noted_shards
from headrace.stores.storage import Storage


def file_prefix_of(partition: str, prefix: str = "") -> str:
    """Start of the file names of a partition's shards, and of no other's.

    Args:
        partition: for example `train-0003`.
        prefix: start of the names, before the split: empty, or `latent_`.
    """
    return f"{prefix}{split_of(partition)}_{bucket_of(partition):04d}_"


def sizes_of_shards(
    storage: Storage, file_prefix: str, names: Iterable[str], doomed: frozenset[str] | None = None
) -> dict[str, int]:
    """File → size in bytes of shards and indexes of a partition that exist and stay; at least those of `names`.

    Args:
        storage: the shard folder.
        file_prefix: see `file_prefix_of`.
        names: file names of the shards to look for.
        doomed: the files on deletion records, if the caller has just read them.
    """
    doomed = condemned_paths(storage) if doomed is None else doomed
    if storage.local_path("sizes.json") is None:
        return {entry.path: entry.num_bytes for entry in storage.list(file_prefix) if entry.path not in doomed}
    sizes: dict[str, int] = {}
    for name in names:
        for path in files_of_shard(name):
            if path not in doomed:
                with contextlib.suppress(NotFoundError):
                    sizes[path] = storage.size(path)
    return sizes


def with_unnamed(storage: Storage, file_prefix: str, sizes: dict[str, int]) -> dict[str, int]:
    """`sizes` with all shards that builds have written for the partition, also those that no manifest names.

    Args:
        storage: the shard folder.
        file_prefix: see `file_prefix_of`.
        sizes: result of `sizes_of_shards`, which is complete for an object store.
    """
    if storage.local_path("sizes.json") is None:
        return sizes
    noted = noted_shards(storage, file_prefix)
    if noted is None:  # a copy of a bucket, for example
        return lasting_sizes(storage, file_prefix)
    found = sizes | sizes_of_shards(storage, file_prefix, [name for name in noted if name not in sizes])
    forget_missing(storage, file_prefix, found)
    return found
