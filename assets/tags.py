"""The tags of runs, by which sensors and jobs find the runs of a data set."""

from collections.abc import Sequence

import dagster as dg

from headrace_dagster.assets.project_dataset import ProjectDataset

DATASET_TAG = "headrace/dataset"
"""Name of the data set."""

WORK_TAG = "headrace/work"
"""Token of the work: runs with the same token tried the same work."""

REASON_TAG = "headrace/reason"
"""Why the work is needed, if not because of a change: `shards missing`."""

HOST_TAG = "headrace/host"
"""Name of the machine that executes a run of `build.py`, which can be another one than the code server's."""

ASSET_JOB = "__ASSET_JOB"
"""Dagster's job for runs of assets."""

PARTITION_TAG = "dagster/partition"
"""Dagster's own tag of a run's partition."""


def dataset_of(run: dg.DagsterRun, datasets: Sequence[ProjectDataset]) -> str | None:
    """Name of the data set of a run: by its tag, its assets, or its job (`demo_verify`); None for other runs.

    A run of all assets of a project is of no single data set; its name is that of Dagster's job for it.
    """
    if DATASET_TAG in run.tags:
        return run.tags[DATASET_TAG]
    if run.asset_selection is None and run.job_name == ASSET_JOB:
        return ASSET_JOB
    for key in sorted(run.asset_selection or (), key=lambda key: key.path):
        owners = [dataset for dataset in datasets if dataset.keys.has(key)]
        if owners:
            return max(owners, key=lambda dataset: len(dataset.key_prefix)).name
    of_job = run.job_name.rpartition("_")[0]
    return next((dataset.name for dataset in datasets if dataset.name == of_job), None)
