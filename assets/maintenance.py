"""Jobs beside the graph: NAME_verify reads everything again, NAME_gc and NAME_history remove what nobody needs."""

import time

import dagster as dg

from assets.history import forget, forgettable_runs
from assets.keys import DatasetKeys
from headrace.config import DatasetConfig
from headrace.gc import collect, find_garbage, find_leftovers, remove_leftovers
from headrace.outputs import find_parts
from headrace.verify import Depth, find_target, verify
from resources.storage import StorageResource
from resources.workers import Workers

_SHOWN = 20


def verify_job(config: DatasetConfig) -> dg.JobDefinition:
    """Reads every byte of the newest snapshots and compares digests, indexes and headers; fails on the first look.

    Its schedule may come in the middle of the first build, when there is nothing yet: that is no fault.
    """
    keys = DatasetKeys(config.name)

    @dg.op(name=f"{config.name}_verify_everything")
    def verify_everything(
        context: dg.OpExecutionContext, storage: StorageResource, workers: dg.ResourceParam[Workers]
    ) -> dg.Output[None]:
        output = storage.output(config)
        if not find_parts(output) and context.instance.get_latest_materialization_event(keys.sizes_index) is None:
            context.log.info("nothing to verify: the first snapshot is not committed yet")
            return dg.Output(None, metadata={"shards": 0})
        verdict = verify(find_target(output.uri), Depth(num_threads=workers.count))
        numbers = {"shards": verdict.num_shards, "samples": verdict.num_samples, "bytes": verdict.num_bytes}
        context.log.info("verified %s", numbers)
        if verdict.faults:
            listed = "\n".join(f"{fault.where}: {fault.what}" for fault in verdict.faults[:_SHOWN])
            raise dg.Failure(
                f"{len(verdict.faults)} faults in {verdict.num_shards} shards; delete the damaged shards and build "
                f"again:\n{listed}",
                allow_retries=False,
            )
        return dg.Output(None, metadata=numbers)

    @dg.job(name=f"{config.name}_verify", description="Read every byte of the newest snapshots again.")
    def job() -> None:
        verify_everything()

    return job


def gc_job(config: DatasetConfig) -> dg.JobDefinition:
    """Removes files that neither the kept snapshots nor the newest manifests name, when they are a day old."""

    @dg.op(name=f"{config.name}_collect_garbage")
    def collect_garbage(context: dg.OpExecutionContext, storage: StorageResource) -> dg.Output[None]:
        output, now_seconds = storage.output(config), time.time()
        found = find_garbage(find_parts(output), keep=config.schedules.gc.keep, now_seconds=now_seconds)
        for garbage in found:
            collect(garbage)
        leftovers = find_leftovers(output, now_seconds=now_seconds)
        remove_leftovers(output, leftovers)
        entries = [entry for garbage in found for entry in garbage.entries] + leftovers
        numbers = {"files": len(entries), "bytes": sum(entry.num_bytes for entry in entries)}
        context.log.info("removed %s", numbers)
        return dg.Output(None, metadata=numbers)

    @dg.job(name=f"{config.name}_gc", description="Remove shards and snapshots that are no longer kept.")
    def job() -> None:
        collect_garbage()

    return job


def history_job(config: DatasetConfig) -> dg.JobDefinition:
    """Removes old runs of this data set, but for those that hold what Dagster knows last."""

    @dg.op(name=f"{config.name}_forget_old_runs")
    def forget_old_runs(context: dg.OpExecutionContext) -> dg.Output[None]:
        runs = forgettable_runs(context.instance, config, now_seconds=time.time())
        for run_id in runs:
            forget(context.instance, run_id)
        context.log.info("removed %d runs", len(runs))
        return dg.Output(None, metadata={"runs": len(runs)})

    @dg.job(name=f"{config.name}_history", description="Remove old runs from Dagster's history.")
    def job() -> None:
        forget_old_runs()

    return job
