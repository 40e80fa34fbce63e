"""The tags of runs, by which sensors and jobs find the runs of a data set."""

from collections.abc import Sequence

import dagster as dg

from headrace_dagster.assets.project_dataset import ProjectDataset

DATASET_TAG = "headrace/dataset"
"""Name of the data set."""

WORK_TAG = ".dagster/headrace_work"
"""Token of the work: runs with the same token tried the same work. The interface hides tags of this namespace."""

SCAN_TAG = f"{WORK_TAG}_scan"
"""Token of the scan of a run: beside `WORK_TAG`, because one run may scan and build."""

REASON_TAG = "headrace/reason"
"""Why the work is needed, if not because of a change: `shards missing`."""

INPUT_TAG = "headrace/input"
"""Version of the YAML, the catalog and the tables of columns for which a sensor asked for a run."""

SUPERSEDED_TAG = "headrace/superseded"
"""Marks a run whose input changed while it was queued or worked, so that it did not make all that it was asked for."""

HOST_TAG = "headrace/host"
"""Name of the machine that executes a run of `build.py`, which can be another one than the code server's."""

ASSET_JOB = "__ASSET_JOB"
"""Dagster's job for runs of assets."""

PARTITION_TAG = "dagster/partition"
"""Dagster's own tag of a run's partition."""

FIRST_PARTITION_TAG = "dagster/asset_partition_range_start"
LAST_PARTITION_TAG = "dagster/asset_partition_range_end"
"""Dagster's own tags of a run of several partitions, which are consecutive."""


def work_tags(num_partitions: int) -> list[str]:
    """The tags with the tokens of the work of a run's partitions, in order.

    >>> work_tags(3)
    ['.dagster/headrace_work', '.dagster/headrace_work_2', '.dagster/headrace_work_3']
    """
    return [WORK_TAG, *(f"{WORK_TAG}_{number}" for number in range(2, num_partitions + 1))]


def range_tags(partitions: Sequence[str]) -> dict[str, str]:
    """The tags of a run of several consecutive partitions."""
    return {FIRST_PARTITION_TAG: partitions[0], LAST_PARTITION_TAG: partitions[-1]}


def partition_label(run: dg.DagsterRun) -> str:
    """The partitions of a run, for messages: `train-0000`, or `train-0000 … train-0007`; empty without any."""
    ends = (run.tags.get(FIRST_PARTITION_TAG), run.tags.get(LAST_PARTITION_TAG))
    return run.tags.get(PARTITION_TAG) or " … ".join(dict.fromkeys(end for end in ends if end))


def partitions_of_run(run: dg.DagsterRun, layout: Sequence[str]) -> tuple[str, ...]:
    """The partitions of a run; none for a run of unpartitioned assets.

    Args:
        run: a run.
        layout: all partitions of the data set, in order. Of a range that is not in it, only the ends are known.
    """
    if PARTITION_TAG in run.tags:
        return (run.tags[PARTITION_TAG],)
    if run.partitions_subset is not None:
        return tuple(run.partitions_subset.get_partition_keys())
    if FIRST_PARTITION_TAG not in run.tags:
        return ()
    first, last = run.tags[FIRST_PARTITION_TAG], run.tags[LAST_PARTITION_TAG]
    if first not in layout or last not in layout:
        return tuple(dict.fromkeys((first, last)))
    return tuple(layout[layout.index(first) : layout.index(last) + 1])


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
