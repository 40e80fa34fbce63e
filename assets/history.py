"""Decides which old runs can be removed from Dagster's history, which otherwise grows without limit.

With a run, Dagster deletes the events of the run: materializations, observations and their metadata. So two kinds of
runs are kept: those that hold the last record of an asset or of a partition, and failed runs that no later successful
run has repeated, because the sensors count them to decide when to stop trying.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

import dagster as dg

from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.run_statuses import ENDED
from headrace_dagster.assets.tags import dataset_of, partitions_of_run

_DAY_SECONDS = 86_400
_PAGE = 500
_MOST_AT_A_TIME = 2000
_RECENT = 10
"""This many of the last records of every asset are kept: for plots over time, and for the drift checks."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that has ended.

    Attributes:
        run_id: id of the run.
        ended_seconds: when the run ended, in seconds since 1970.
        made: assets (or the job) and partitions of the run.
        is_success: whether the run succeeded.
    """

    run_id: str
    ended_seconds: float
    made: frozenset[tuple[str, str]]
    is_success: bool


def forgettable_runs(instance: dg.DagsterInstance, dataset: ProjectDataset, now_seconds: float) -> list[str]:
    """Ids of runs of a data set that `schedules.history` allows to remove, oldest first; a few thousand at most."""
    history = dataset.config.schedules.history
    runs = list(_past_runs(instance, dataset))
    needed = _last_runs(instance, dataset.assets())
    found = forgettable(runs, needed, keep=history.keep, before_seconds=now_seconds - history.days * _DAY_SECONDS)
    return found[::-1][:_MOST_AT_A_TIME]


def forgettable(runs: Sequence[PastRun], needed: Collection[str], *, keep: int, before_seconds: float) -> list[str]:
    """Ids of the runs that can be removed, newest first.

    Args:
        runs: all runs that have ended, newest first.
        needed: ids of runs that must be kept.
        keep: this many of the newest runs are kept.
        before_seconds: runs that ended later than this, in seconds since 1970, are kept.
    """
    made_good: set[tuple[str, str]] = set()
    found = []
    for place, run in enumerate(runs):
        if run.is_success:
            made_good |= run.made
        is_old = place >= keep and run.ended_seconds < before_seconds
        if is_old and run.run_id not in needed and run.made <= made_good:
            found.append(run.run_id)
    return found


def _past_runs(instance: dg.DagsterInstance, dataset: ProjectDataset) -> Iterator[PastRun]:
    """The runs of a data set that have ended, newest first."""
    filters = dg.RunsFilter(statuses=ENDED)
    layout = dataset.partitions.get_partition_keys()
    cursor: str | None = None
    while page := instance.get_run_records(filters, limit=_PAGE, cursor=cursor):
        for record in page:
            run = record.dagster_run
            if dataset_of(run, [dataset]) == dataset.name:
                ended = record.end_time or record.update_timestamp.replace(tzinfo=UTC).timestamp()
                yield PastRun(run.run_id, ended, _made(run, layout), run.status == dg.DagsterRunStatus.SUCCESS)
        cursor = page[-1].dagster_run.run_id


def _made(run: dg.DagsterRun, layout: Sequence[str]) -> frozenset[tuple[str, str]]:
    partitions = partitions_of_run(run, layout) or ("",)
    names = [key.to_user_string() for key in run.asset_selection or ()]
    return frozenset((name, partition) for name in names or [run.job_name] for partition in partitions)


def _last_runs(instance: dg.DagsterInstance, keys: Collection[dg.AssetKey]) -> set[str]:
    """Ids of the runs that hold the last records of these assets, and of each of their partitions."""
    kinds = {
        dg.DagsterEventType.ASSET_MATERIALIZATION: instance.fetch_materializations,
        dg.DagsterEventType.ASSET_OBSERVATION: instance.fetch_observations,
    }
    found: set[str] = set()
    for key in keys:
        for kind, fetch in kinds.items():
            found |= {record.run_id for record in fetch(key, limit=_RECENT).records}
            ids = list(instance.get_latest_storage_id_by_partition(key, kind).values())
            for start in range(0, len(ids), _PAGE):
                some = dg.AssetRecordsFilter(key, storage_ids=ids[start : start + _PAGE])
                found |= {record.run_id for record in fetch(some, limit=_PAGE).records}
    return found
