"""Tests of `headrace.format.shards.shard_files`."""

from headrace.format.shards.shard_files import file_prefix_of


def test_the_prefix_of_a_partition_is_that_of_no_other():
    assert file_prefix_of("hold-out-0012", "latent_") == "latent_hold-out_0012_"
