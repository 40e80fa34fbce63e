"""Shared by test_commits and the tests beside it."""

from headrace.format.indexes.index import index_name
from headrace.format.manifests.manifests import (
    Manifest,
    ShardEntry,
    bucket_of,
    commit_manifest,
    newest_manifest,
    shard_name,
    split_of,
)
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.summaries import newest_summaries


def put(storage, partition, *counts, wanted="w", refused=()):
    """The next manifest of a partition with shards of these numbers of samples, and their files."""
    shards = []
    for sequence, count in enumerate(counts):
        name = shard_name("", split_of(partition), bucket_of(partition), sequence, f"{sequence * 1000 + count:012x}")
        storage.write(name, bytes(10))
        storage.write(index_name(name), b"")
        shards.append(ShardEntry(name, 10, count, 100 * count, 0.1 * count, "input", max(count, 1)))
    manifest = Manifest(partition, wanted, "source", {}, tuple(shards), tuple(refused))
    return commit_manifest(storage, manifest, newest_manifest(storage, partition))


def commit(storage, catalog="catalog"):
    return commit_snapshot(storage, newest_summaries(storage), catalog, {})
