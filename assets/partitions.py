"""Partitions of a data set: a split and a bucket of it, fixed by its YAML."""

import dagster as dg

from headrace.config import DatasetConfig


def partitions_of(config: DatasetConfig) -> dg.StaticPartitionsDefinition:
    """`train-0000`, `train-0001`, … in the layout's order."""
    return dg.StaticPartitionsDefinition(config.layout().partition_keys())
