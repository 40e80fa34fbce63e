"""Shared by test_snapshots and the tests beside it."""

import zlib

from headrace.format.manifests.manifests import ShardEntry, shard_name


def entry(split, bucket, sequence, num_samples=5):
    name = shard_name("", split, bucket, sequence, f"{zlib.crc32(repr((split, bucket, sequence)).encode()):012x}")
    return ShardEntry(name, 1000, num_samples, 80_000, 10.0, "input", num_samples)
