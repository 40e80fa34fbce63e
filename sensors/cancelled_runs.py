"""Notes of which work a run was that somebody started by hand and cancelled, so that no sensor starts it again.

A run that a sensor started has a token of its work in its tags. A run of the web interface, of a backfill or of a
schedule has none. After it was cancelled, it gets the tokens of what its partitions and its scan lack now, and counts
as an attempt at this work.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import SCAN_TAG, WORK_TAG, partitions_of_run, work_tags
from headrace_dagster.sensors.activity import assets_of

_RECENT_SECONDS = 600.0
"""A run that was cancelled longer ago may have been of other input: its work is started again."""
_MOST_RUNS = 50
_NOTHING = "nothing"
"""The token of a partition, or of a scan, that lacked nothing when its run was cancelled."""


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
    layout = dataset.partitions.get_partition_keys()
    for run in _cancelled(instance, makes, WORK_TAG):
        instance.add_run_tags(run.run_id, noted(partitions_of_run(run, layout), tokens))


def note_cancelled_scans(instance: dg.DagsterInstance, catalog: dg.AssetKey, token: str = _NOTHING) -> None:
    """Give cancelled runs that scan, and have no token, that of the scan that is due now, if one is."""
    for run in _cancelled(instance, [catalog], SCAN_TAG):
        instance.add_run_tags(run.run_id, {SCAN_TAG: token})


def _cancelled(instance: dg.DagsterInstance, makes: Collection[dg.AssetKey], tag: str) -> Iterator[dg.DagsterRun]:
    """Runs that make one of these assets, were cancelled lately and have no token in this tag."""
    since = datetime.now(UTC) - timedelta(seconds=_RECENT_SECONDS)
    cancelled = dg.RunsFilter(statuses=[dg.DagsterRunStatus.CANCELED], updated_after=since)
    for record in instance.get_run_records(filters=cancelled, limit=_MOST_RUNS):
        run = record.dagster_run
        ended = record.end_time or record.update_timestamp.replace(tzinfo=UTC).timestamp()
        if tag in run.tags or ended < since.timestamp():
            continue
        made = assets_of(instance, run)
        if made is None or not made.isdisjoint(makes):
            yield run


def noted(partitions: Sequence[str], tokens: Mapping[str, str]) -> dict[str, str]:
    """The tags of a cancelled run of these partitions, or of unpartitioned assets.

    >>> noted(["train-0001", "train-0002"], {"train-0002": "a token"})
    {'.dagster/headrace_work': 'nothing', '.dagster/headrace_work_2': 'a token'}
    """
    names = partitions or [""]
    return dict(zip(work_tags(len(names)), (tokens.get(name) or _NOTHING for name in names), strict=True))
