"""The metadata of a partition of columns counts its samples and shards."""

from headrace.assemble.update import PartitionBuild
from headrace.format.manifests.manifests import Manifest, ManifestRejection, NumberedManifest, ShardEntry
from headrace_dagster.assets.column_metadata import columns_metadata


def entry(name, num_samples, num_bytes):
    return ShardEntry(name, num_bytes, num_samples, 0, 1.0, "digest", num_samples)


def test_shards_are_counted_as_written_reused_or_removed():
    shards = (entry("a", 3, 100), entry("b", 4, 50))
    refused = (ManifestRejection("x.wav", "no_sample", "reason", ""),)
    manifest = NumberedManifest(7, Manifest("train-0000", "wanted", "source", {}, shards, refused), "digest")
    previous = Manifest("train-0000", "w", "s", {}, (entry("b", 4, 50), entry("old", 1, 1), entry("older", 1, 1)))
    found = columns_metadata(PartitionBuild(manifest, ("a",), ("b",), previous))
    assert found == {
        "dagster/row_count": 7,
        "manifest": 7,
        "rejected": 1,
        "shard_bytes": 150,
        "shards": 2,
        "shards_written": 1,
        "shards_reused": 1,
        "shards_removed": 2,
    }
    first = columns_metadata(PartitionBuild(manifest, ("a", "b"), (), None))
    assert (first["shards_written"], first["shards_removed"]) == (2, 0)
