"""The jobs NAME_verify, NAME_gc and NAME_history: verify all data, remove unused files, remove old runs."""

import time

import dagster as dg

from headrace.checks.verify import Depth, find_target, verify
from headrace.locate.outputs import shard_folders
from headrace.tools.gc import collect, find_garbage, find_leftovers, remove_leftovers
from headrace_dagster.assets.history import forgettable_runs
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.dagster_internals.run_removal import remove_run
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.resources.workers import Workers

_SHOWN = 20


def verify_job(dataset: ProjectDataset) -> dg.JobDefinition:
    """The job that reads every byte of the newest snapshots and compares digests, indexes and headers.

    It passes before the first snapshot is committed: its schedule may tick during the first build.
    """
    config, keys = dataset.config, dataset.keys

    @dg.op(name=f"{config.name}_verify_everything")
    def verify_everything(
        context: dg.OpExecutionContext, headrace_storage: StorageResource, headrace_workers: dg.ResourceParam[Workers]
    ) -> dg.Output[None]:
        output = headrace_storage.output(config)
        if not shard_folders(output) and context.instance.get_latest_materialization_event(keys.sizes_index) is None:
            context.log.info("nothing to verify: the first snapshot is not committed yet")
            return dg.Output(None, metadata={"shards": 0})
        verdict = verify(find_target(output.uri), Depth(num_threads=headrace_workers.count))
        numbers = {"shards": verdict.num_shards, "samples": verdict.num_samples, "shard_bytes": verdict.num_bytes}
        context.log.info("verified %s", numbers)
        if verdict.faults:
            listed = "\n".join(f"{fault.where}: {fault.what}" for fault in verdict.faults[:_SHOWN])
            raise dg.Failure(
                f"{len(verdict.faults)} faults in {verdict.num_shards} shards; delete the damaged shards and build "
                f"them again:\n{listed}",
                allow_retries=False,
            )
        return dg.Output(None, metadata=numbers)

    @dg.job(
        name=f"{config.name}_verify",
        description="Read every byte of the newest snapshots and compare digests, indexes and headers.",
    )
    def job() -> None:
        verify_everything()

    return job


def gc_job(dataset: ProjectDataset) -> dg.JobDefinition:
    """The job that removes files older than a day that no kept snapshot and no newest manifest names."""
    config = dataset.config

    @dg.op(name=f"{config.name}_collect_garbage")
    def collect_garbage(context: dg.OpExecutionContext, headrace_storage: StorageResource) -> dg.Output[None]:
        output, now_seconds = headrace_storage.output(config), time.time()
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
