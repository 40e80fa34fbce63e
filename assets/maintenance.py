"""The jobs NAME_gc and NAME_history: remove unused files, remove old runs."""

import time

import dagster as dg

from headrace.catalog.stored.header import HEADER_PATH, check_owner, read_header
from headrace.upkeep.gc import collect, find_garbage, find_leftovers, remove_leftovers
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.history import forgettable_runs
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.dagster_internals.run_removal import remove_run
from headrace_dagster.resources.storage import StorageResource


def gc_job(dataset: ProjectDataset) -> dg.JobDefinition:
    """The job that removes files older than a day that no kept snapshot and no newest manifest names."""
    config = dataset.config

    @dg.op(name=f"{config.name}_collect_garbage")
    @readable_failures()
    def collect_garbage(context: dg.OpExecutionContext, headrace_storage: StorageResource) -> dg.Output[None]:
        output, now_seconds = headrace_storage.output(config), time.time()
        if (header := read_header(output)) is not None:
            check_owner(header.totals, config, f"{output.uri}/{HEADER_PATH}")
        found = find_garbage(output, keep=config.schedules.gc.keep, now_seconds=now_seconds)
        removed = collect(output, found)
        leftovers = find_leftovers(output, now_seconds=now_seconds)
        remove_leftovers(output, leftovers)
        entries = [entry for part in removed.values() for entry in part] + leftovers
        numbers = {"files_removed": len(entries), "removed_bytes": sum(entry.num_bytes for entry in entries)}
        context.log.info("removed %s", numbers)
        return dg.Output(None, metadata=numbers)

    @dg.job(name=f"{config.name}_gc", description="Remove old snapshots, and shards that no kept snapshot names.")
    def job() -> None:
        collect_garbage()

    return job


def history_job(dataset: ProjectDataset) -> dg.JobDefinition:
    """The job that removes old runs of this data set, except those with the last record of an asset or partition."""

    @dg.op(name=f"{dataset.name}_forget_old_runs")
    def forget_old_runs(context: dg.OpExecutionContext) -> dg.Output[None]:
        runs = forgettable_runs(context.instance, dataset, now_seconds=time.time())
        for run_id in runs:
            remove_run(context.instance, run_id)
        context.log.info("removed %d runs", len(runs))
        return dg.Output(None, metadata={"runs_removed": len(runs)})

    @dg.job(name=f"{dataset.name}_history", description="Remove old runs from Dagster's history.")
    def job() -> None:
        forget_old_runs()

    return job
