"""Old runs leave Dagster's history, which otherwise grows for ever.

Owns which runs may go, and removing one with all that it left. Dagster deletes what a run recorded together with the
run: materializations, observations and their numbers. So the runs stay that hold what the instance knows last of an
asset or of a partition, and those whose failure nothing has made good: they keep work at rest.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable

from assets.keys import DatasetKeys
from assets.tags import PARTITION_TAG, dataset_of
from headrace.config import DatasetConfig

_DAY_SECONDS = 86_400
_PAGE = 500
_MOST_AT_A_TIME = 2000
_RECENT = 10
"""So many of the last records of every asset stay: for plots over time, and for the drift checks."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that has ended.

    Attributes:
        run_id: its id.
        ended_seconds: when, in seconds since 1970.
        made: assets (or the job) and partition.
        is_success: whether it came off.
    """

    run_id: str
    ended_seconds: float
    made: frozenset[tuple[str, str]]
    is_success: bool


def forgettable_runs(instance: dg.DagsterInstance, config: DatasetConfig, now_seconds: float) -> list[str]:
    """Ids of the runs of a data set that may go by its `schedules.history`, oldest first; a few thousand at most."""
    history = config.schedules.history
    runs = list(_past_runs(instance, config.name))
    needed = _last_runs(instance, DatasetKeys(config.name).all(latents.name for latents in config.latents))
    found = forgettable(runs, needed, keep=history.keep, before_seconds=now_seconds - history.days * _DAY_SECONDS)
    return found[::-1][:_MOST_AT_A_TIME]


def forgettable(runs: Sequence[PastRun], needed: Collection[str], *, keep: int, before_seconds: float) -> list[str]:
    """Ids of the runs that may go. Pure.

    Args:
        runs: all that have ended, newest first.
        needed: ids of runs that must stay.
        keep: so many of the newest stay.
        before_seconds: and all that ended later than this.
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


def forget(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove a run: its record and events, what it printed, and what Dagster's own deletion leaves behind."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        _forget_verdicts(storage, run_id)
    if isinstance(storage, SqliteEventLogStorage):  # the run's file was emptied and is still there
        for suffix in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)


def _forget_verdicts(storage: SqlEventLogStorage, run_id: str) -> None:
    """Remove a run's rows in the table of checks; the last verdict on each check of each partition stays."""
    rows, others = AssetCheckExecutionsTable, AssetCheckExecutionsTable.alias()
    is_same_check = sa.and_(
        others.c.asset_key == rows.c.asset_key,
        others.c.check_name == rows.c.check_name,
        others.c.partition.is_not_distinct_from(rows.c.partition),
    )
    later = sa.exists().where(is_same_check, others.c.id > rows.c.id).correlate(rows)
    with storage.index_connection() as connection:
        connection.execute(rows.delete().where(rows.c.run_id == run_id, later))


def _past_runs(instance: dg.DagsterInstance, name: str) -> Iterator[PastRun]:
    """The runs of a data set that have ended, newest first."""
    filters = dg.RunsFilter(statuses=FINISHED_STATUSES)
    cursor: str | None = None
    while page := instance.get_run_records(filters, limit=_PAGE, cursor=cursor):
        for record in page:
            run = record.dagster_run
            if dataset_of(run) == name:
                ended = record.end_time or record.update_timestamp.replace(tzinfo=UTC).timestamp()
                yield PastRun(run.run_id, ended, _made(run), run.status == dg.DagsterRunStatus.SUCCESS)
        cursor = page[-1].dagster_run.run_id


def _made(run: dg.DagsterRun) -> frozenset[tuple[str, str]]:
    partition = run.tags.get(PARTITION_TAG, "")
    names = [key.to_user_string() for key in run.asset_selection or ()]
    return frozenset((name, partition) for name in names or [run.job_name])


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
            ids = list(instance.event_log_storage.get_latest_storage_id_by_partition(key, kind).values())
            for start in range(0, len(ids), _PAGE):
                some = dg.AssetRecordsFilter(key, storage_ids=ids[start : start + _PAGE])
                found |= {record.run_id for record in fetch(some, limit=_PAGE).records}
    return found
