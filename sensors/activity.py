"""What runs are doing about a data set, and what they have tried: read from the Dagster instance.

Owns those queries. Any run counts, whoever started it: a sensor, a person in the UI, `build.py`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES, NOT_FINISHED_STATUSES

from assets.tags import PARTITION_TAG, WORK_TAG
from headrace.waves import Attempts
from sensors.dead_runs import bury_dead_runs

_ASSET_JOB = "__ASSET_JOB"
_MOST_ATTEMPTS = 5000


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run in progress.

    Attributes:
        assets: what it makes; None for a run of everything.
        partition: its partition; None for none, or for a range of them.
        seconds: how long it has been there.
    """

    assets: frozenset[dg.AssetKey] | None
    partition: str | None
    seconds: float

    def makes(self, keys: Collection[dg.AssetKey]) -> bool:
        """Whether it is at work on one of these assets."""
        return self.assets is None or not self.assets.isdisjoint(keys)


def active_runs(instance: dg.DagsterInstance) -> list[ActiveRun]:
    """All runs in progress or queued; those whose process is gone are marked failed first, and are not among them."""
    now = datetime.now(UTC)
    records = list(instance.get_run_records(filters=dg.RunsFilter(statuses=NOT_FINISHED_STATUSES)))
    dead = bury_dead_runs(instance, records, now)
    return [
        ActiveRun(
            _assets_of(record.dagster_run),
            record.dagster_run.tags.get(PARTITION_TAG),
            (now - record.create_timestamp.replace(tzinfo=UTC)).total_seconds(),
        )
        for record in records
        if record.dagster_run.run_id not in dead
    ]


def _assets_of(run: dg.DagsterRun) -> frozenset[dg.AssetKey] | None:
    """What a run makes; jobs of their own (`verify`, `gc`) make no asset."""
    if run.asset_selection is None and run.job_name == _ASSET_JOB:
        return None
    return frozenset(run.asset_selection or ())


def attempts_at(instance: dg.DagsterInstance, tokens: Collection[str]) -> Mapping[str, Attempts]:
    """Runs that ended, by token, however they ended: the work is still there, so none of them did it."""
    if not tokens:
        return {}
    finished = dg.RunsFilter(tags={WORK_TAG: list(tokens)}, statuses=FINISHED_STATUSES)
    now = datetime.now(UTC).timestamp()
    found: dict[str, Attempts] = {}
    for record in instance.get_run_records(filters=finished, limit=_MOST_ATTEMPTS):
        token = record.dagster_run.tags[WORK_TAG]
        before = found.get(token, Attempts(0, float("inf")))
        ended = record.end_time or record.update_timestamp.replace(tzinfo=UTC).timestamp()
        found[token] = Attempts(before.count + 1, min(before.seconds_since_last, now - ended))
    return found


def newest_run(instance: dg.DagsterInstance) -> str:
    """A mark that differs whenever a run came, started or ended."""
    records = instance.get_run_records(limit=1)
    moved = instance.get_run_records(filters=dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
    marks = [f"{r.dagster_run.run_id} {r.dagster_run.status.value}" for r in [*records, *moved]]
    return " ".join(marks)
