"""Notes of which work a run was that somebody started by hand and cancelled, so that no sensor starts it again.

A run that a sensor started has a token of its work in its tags. A run of the web interface has none. After it was
cancelled, it gets the tokens of what its partitions lack now, and counts as an attempt at this work.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import ASSET_JOB, WORK_TAG, dataset_of, partitions_of_run, work_tags

_RECENT_SECONDS = 600.0
"""A run that was cancelled longer ago may have been of other input: its work is started again."""
_MOST_RUNS = 50
_NOTHING = "nothing"
"""The token of a partition that lacked nothing when its run was cancelled."""


def note_cancelled_runs(
    instance: dg.DagsterInstance, dataset: ProjectDataset, makes: Collection[dg.AssetKey], tokens: Mapping[str, str]
) -> None:
    """Give cancelled runs without tokens those of the work that is due now.

    Args:
        instance: the Dagster instance.
        dataset: the data set.
        makes: the assets of the work.
        tokens: partition → token of its work; that of the work for the whole data set under the empty name.
    """
    now, layout = datetime.now(UTC), dataset.partitions.get_partition_keys()
    cancelled = dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED])
    for record in instance.get_run_records(filters=cancelled, limit=_MOST_RUNS):
        run = record.dagster_run
        ended = record.end_time or record.update_timestamp.replace(tzinfo=UTC).timestamp()
        is_ours = dataset_of(run, [dataset]) in {dataset.name, ASSET_JOB}
        if WORK_TAG in run.tags or now.timestamp() - ended > _RECENT_SECONDS or not is_ours:
            continue
        if run.asset_selection is None or not run.asset_selection.isdisjoint(makes):
            instance.add_run_tags(run.run_id, noted(partitions_of_run(run, layout), tokens))


def noted(partitions: Sequence[str], tokens: Mapping[str, str]) -> dict[str, str]:
    """The tags of a cancelled run of these partitions, or of unpartitioned assets.

    >>> noted(["train-0001", "train-0002"], {"train-0002": "a token"})
    {'.dagster/headrace_work': 'nothing', '.dagster/headrace_work_2': 'a token'}
    """
    names = partitions or [""]
    return dict(zip(work_tags(len(names)), (tokens.get(name) or _NOTHING for name in names), strict=True))
