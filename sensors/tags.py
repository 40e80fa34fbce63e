"""The tags of runs that sensors start, by which they know them again."""

DATASET_TAG = "headrace/dataset"
"""Name of the data set."""

WORK_TAG = "headrace/work"
"""Token of the work: runs with the same token tried the same thing."""

PARTITION_TAG = "dagster/partition"
"""Dagster's own."""
