"""The Dagster partitions of a data set: buckets of each split, as many as its YAML says."""

import dagster as dg

from headrace.config.dataset import DatasetConfig


def partitions_of(config: DatasetConfig) -> dg.StaticPartitionsDefinition:
    """The partitions `train-0000`, `train-0001`, …, in the order of the YAML's splits."""
    return dg.StaticPartitionsDefinition(config.partitioning().partition_keys())
