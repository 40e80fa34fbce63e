"""The schedules NAME_refresh, NAME_verify, NAME_gc and NAME_history, at the times of the data set's YAML."""

import dagster as dg

from headrace.config.operation import ScheduleConfig
from headrace_dagster.assets.maintenance import gc_job, history_job
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import DATASET_TAG
from headrace_dagster.assets.verification import verify_job


def dataset_schedules(dataset: ProjectDataset) -> list[dg.ScheduleDefinition]:
    """The schedules of a data set."""
    schedules = dataset.config.schedules
    return [
        _refresh(dataset),
        _of_job(
            dataset,
            verify_job(dataset),
            schedules.verify,
            "Read every byte of the newest snapshots and compare digests.",
        ),
        _of_job(dataset, gc_job(dataset), schedules.gc, "Remove files that no kept snapshot names."),
        _of_job(dataset, history_job(dataset), schedules.history, "Remove old runs from Dagster's history."),
    ]


def _refresh(dataset: ProjectDataset) -> dg.ScheduleDefinition:
    key, schedules = dataset.keys.catalog, dataset.config.schedules

    @dg.schedule(
        name=f"{dataset.name}_refresh",
        cron_schedule=schedules.refresh.cron,
        execution_timezone=schedules.time_zone,
        default_status=_status(schedules.refresh),
        target=dg.AssetSelection.assets(key),
        description="Scan the whole source. The sensor `stale_partitions` then builds what changed.",
    )
    def refresh() -> dg.RunRequest:
        return dg.RunRequest(asset_selection=[key], tags={DATASET_TAG: dataset.name})

    return refresh


def _of_job(
    dataset: ProjectDataset, job: dg.JobDefinition, when: ScheduleConfig, description: str
) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=job.name,
        job=job,
        cron_schedule=when.cron,
        execution_timezone=dataset.config.schedules.time_zone,
        default_status=_status(when),
        description=description,
        tags={DATASET_TAG: dataset.name},
    )


def _status(when: ScheduleConfig) -> dg.DefaultScheduleStatus:
    return dg.DefaultScheduleStatus.RUNNING if when.enabled else dg.DefaultScheduleStatus.STOPPED
