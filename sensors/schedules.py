"""NAME_refresh, NAME_verify, NAME_gc, NAME_history: what happens by the clock, as the data set's YAML says."""

import dagster as dg

from assets.keys import DatasetKeys
from assets.maintenance import gc_job, history_job, verify_job
from assets.tags import DATASET_TAG
from headrace.config import DatasetConfig, ScheduleConfig


def dataset_schedules(config: DatasetConfig) -> list[dg.ScheduleDefinition]:
    """The schedules of a data set."""
    schedules = config.schedules
    return [
        _refresh(config),
        _of_job(config, verify_job(config), schedules.verify, "Read every byte again and compare digests."),
        _of_job(config, gc_job(config), schedules.gc, "Remove what no kept snapshot names."),
        _of_job(config, history_job(config), schedules.history, "Remove old runs from Dagster's history."),
    ]


def _refresh(config: DatasetConfig) -> dg.ScheduleDefinition:
    key = DatasetKeys(config.name).catalog

    @dg.schedule(
        name=f"{config.name}_refresh",
        cron_schedule=config.schedules.refresh.cron,
        execution_timezone=config.schedules.time_zone,
        default_status=_status(config.schedules.refresh),
        target=dg.AssetSelection.assets(key),
        description="Scan the whole source. What it finds is built by `stale_partitions`, as after any change.",
    )
    def refresh() -> dg.RunRequest:
        return dg.RunRequest(asset_selection=[key], tags={DATASET_TAG: config.name})

    return refresh


def _of_job(
    config: DatasetConfig, job: dg.JobDefinition, when: ScheduleConfig, description: str
) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=job.name,
        job=job,
        cron_schedule=when.cron,
        execution_timezone=config.schedules.time_zone,
        default_status=_status(when),
        description=description,
        tags={DATASET_TAG: config.name},
    )


def _status(when: ScheduleConfig) -> dg.DefaultScheduleStatus:
    return dg.DefaultScheduleStatus.RUNNING if when.enabled else dg.DefaultScheduleStatus.STOPPED
