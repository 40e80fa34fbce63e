"""The tags of runs that sensors and schedules start, by which they are known again."""

import dagster as dg

DATASET_TAG = "headrace/dataset"
"""Name of the data set."""

WORK_TAG = "headrace/work"
"""Token of the work: runs with the same token tried the same thing."""

HOST_TAG = "headrace/host"
"""Name of the machine whose process a run is, where that need not be the code server's: a run of `build.py`."""

PARTITION_TAG = "dagster/partition"
"""Dagster's own."""


def dataset_of(run: dg.DagsterRun) -> str:
    """The data set that a run is about, by whomever it was started; a run of everything has its job's name.

    Jobs are named after their data set: `demo_verify`.
    """
    paths = sorted(key.path for key in run.asset_selection or ())
    of_job = run.job_name if run.job_name.startswith("__") else run.job_name.rpartition("_")[0]
    return run.tags.get(DATASET_TAG) or (paths[0][0] if paths else of_job)
