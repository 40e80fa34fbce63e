"""Reads from the Dagster instance which runs are in progress, and which attempts have ended.

All runs count, whether a sensor, a person in the UI or `build.py` started them.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from headrace.assemble.waves import Attempts
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.run_statuses import ENDED, UNDER_WAY
from headrace_dagster.assets.tags import ASSET_JOB, SUPERSEDED_TAG, WORK_TAG, dataset_of, partitions_of_run
from headrace_dagster.sensors.dead_runs import bury_dead_runs

_MOST_ATTEMPTS = 5000
_MOST_SOUND, _SOUND_SECONDS = 6, 600.0


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run in progress.

    Attributes:
        assets: the assets of the run; None for a run of all assets.
        partitions: the partitions of the run; none for a run of unpartitioned assets.
        seconds: how long ago the run was created.
    """

    assets: frozenset[dg.AssetKey] | None
    partitions: tuple[str, ...]
    seconds: float

    def makes(self, keys: Collection[dg.AssetKey]) -> bool:
        """Whether the run materializes one of these assets."""
        return self.assets is None or not self.assets.isdisjoint(keys)


def active_runs(instance: dg.DagsterInstance, dataset: ProjectDataset) -> list[ActiveRun]:
    """All runs in progress or queued, of any data set.

    Runs of this data set whose process is gone are marked failed first, and queued runs of partitions that the YAML no
    longer has are taken out of the queue. They are not among the result.
    """
    now = datetime.now(UTC)
    records = list(instance.get_run_records(filters=dg.RunsFilter(statuses=UNDER_WAY)))
    names, layout = {dataset.name, ASSET_JOB}, dataset.partitions.get_partition_keys()
    own = [record for record in records if dataset_of(record.dagster_run, [dataset]) in names]
    ended = bury_dead_runs(instance, own, now) | _cancel_outdated(instance, own, layout)
    return [
        ActiveRun(
            assets_of(instance, record.dagster_run),
            partitions_of_run(record.dagster_run, layout),
            (now - record.create_timestamp.replace(tzinfo=UTC)).total_seconds(),
        )
        for record in records
        if record.dagster_run.run_id not in ended
    ]


def _cancel_outdated(instance: dg.DagsterInstance, records: Sequence[dg.RunRecord], layout: Sequence[str]) -> set[str]:
    """Cancel queued runs of partitions that are not in the layout any more. Returns their ids."""
    queued = [record.dagster_run for record in records if record.dagster_run.status == dg.DagsterRunStatus.QUEUED]
    outdated = [run.run_id for run in queued if not set(partitions_of_run(run, layout)) <= set(layout)]
    for run_id in outdated:
        instance.add_run_tags(run_id, {SUPERSEDED_TAG: "the YAML has no such partition"})
        instance.run_coordinator.cancel_run(run_id)
    return set(outdated)


def assets_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> frozenset[dg.AssetKey] | None:
    """The assets that a run makes; None for all of them, empty for jobs without assets (`verify`, `gc`)."""
    if run.asset_selection is not None:
        return frozenset(run.asset_selection)
    if run.job_name == ASSET_JOB:
        return None
    # A job of assets that somebody defined in a project has no selection of its own.
    planned = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    keys = (entry.get_dagster_event().asset_key for entry in planned)
    return frozenset(key for key in keys if key is not None)


def attempts_at(
    instance: dg.DagsterInstance,
    tokens: Collection[str],
    tags: Sequence[str] = (WORK_TAG,),
    sound_since: Mapping[dg.AssetKey, float] | None = None,
) -> Mapping[str, Attempts]:
    """Count the attempts for each token, with the time of the last: runs that ended, successful or not.

    A token is asked about while its work is still to be done, so a successful run has not done it either. A run that
    was cancelled or superseded is no attempt. If the last run was cancelled, nothing is tried again.

    Args:
        instance: the Dagster instance.
        tokens: tokens of the work of partitions, or of the whole data set.
        tags: the tags of runs that hold tokens.
        sound_since: the assets of the work, and when each was sound last, seconds since 1970. A run that began before
            that, or was not to make the asset, is no attempt at it; but those of the last ten minutes are after the
            sixth, for an asset that runs make and the daemon never finds up to date. None counts all runs.
    """
    if not tokens:
        return {}
    now = datetime.now(UTC).timestamp()
    found: dict[str, Attempts] = {}
    num_sound = Counter[str]()
    for tag in tags:
        finished = dg.RunsFilter(tags={tag: list(tokens)}, statuses=ENDED)
        for record in instance.get_run_records(filters=finished, limit=_MOST_ATTEMPTS):
            token = record.dagster_run.tags[tag]
            ended = record.end_time or _seconds(record.update_timestamp)
            if _is_superseded(record.dagster_run):
                continue
            if not _is_attempt(record, sound_since):
                num_sound[token] += now - ended < _SOUND_SECONDS
                if num_sound[token] <= _MOST_SOUND:
                    continue
            before = found.get(token, Attempts(0, float("inf")))
            is_cancelled = record.dagster_run.status == dg.DagsterRunStatus.CANCELED
            found[token] = with_run(before, now - ended, is_cancelled=is_cancelled)
    return found


def with_run(attempts: Attempts, seconds_ago: float, *, is_cancelled: bool) -> Attempts:
    """The attempts at some work, and one run more. The runs may come in any order.

    Args:
        attempts: those so far.
        seconds_ago: how long ago the run ended.
        is_cancelled: whether somebody cancelled it.
    """
    is_last = seconds_ago <= attempts.seconds_since_last
    return Attempts(
        attempts.count + (not is_cancelled),
        min(attempts.seconds_since_last, seconds_ago),
        is_cancelled if is_last else attempts.is_cancelled,
    )


def _is_superseded(run: dg.DagsterRun) -> bool:
    return run.status != dg.DagsterRunStatus.FAILURE and SUPERSEDED_TAG in run.tags


def _is_attempt(record: dg.RunRecord, sound_since: Mapping[dg.AssetKey, float] | None) -> bool:
    made, created = record.dagster_run.asset_selection, _seconds(record.create_timestamp)
    return sound_since is None or any(
        (made is None or key in made) and created > sound for key, sound in sound_since.items()
    )


def _seconds(stamp: datetime) -> float:
    return stamp.replace(tzinfo=UTC).timestamp()


def newest_run(instance: dg.DagsterInstance) -> str:
    """A string that changes whenever a run is created, starts or ends."""
    records = instance.get_run_records(limit=1)
    moved = instance.get_run_records(filters=dg.RunsFilter(statuses=UNDER_WAY))
    marks = [f"{r.dagster_run.run_id} {r.dagster_run.status.value}" for r in [*records, *moved]]
    return " ".join(marks)
