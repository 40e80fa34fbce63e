"""Makes the partitions of a run: one, or several one after the other, each with events of its own.

In a run of several partitions, a partition that fails does not stop the others. At the end the step fails with the
reasons, and the partitions that are done stay materialized. Their checks are made in the step of the asset, because
steps that follow a failed one do not run.
"""

from collections.abc import Callable, Iterable, Iterator

import dagster as dg

from headrace.config.dataset import DatasetConfig
from headrace_dagster.resources.dagster_internals.event_log import partitions_checked_by
from headrace_dagster.resources.dagster_internals.partition_events import (
    PartitionRecorder,
    evaluations,
    recorded_output,
)

PartitionEvent = dg.MaterializeResult | dg.AssetMaterialization | dg.AssetCheckEvaluation
PartitionCheckEvent = dg.AssetCheckResult | dg.AssetCheckEvaluation | dg.Output[None]
PartitionChecks = Callable[[str, dg.MaterializeResult], Iterable[dg.AssetCheckResult]]


def backfill_policy_of(config: DatasetConfig) -> dg.BackfillPolicy | None:
    """How many partitions Dagster's own backfills put into a run; None leaves it at one."""
    most = config.runs.partitions_per_run
    return dg.BackfillPolicy.multi_run(most) if most > 1 else None


def make_partitions(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    make: Callable[[str], dg.MaterializeResult],
    checks: PartitionChecks = lambda _partition, _made: (),
) -> Iterator[PartitionEvent]:
    """Make the partitions of a run, and yield what Dagster records of them.

    Args:
        context: of the step.
        key: the asset.
        make: makes a partition.
        checks: the results of the blocking checks of a partition that was just made. In a run of one partition, the
            checks are a step of their own.

    Raises:
        dg.Failure: names the partitions that failed, each with its reason.
    """
    if context.has_partition_key:
        try:
            yield make(context.partition_key)
        except dg.DagsterExecutionInterruptedError:
            context.log.info("cancelled: finished shards are kept, and the next run goes on from them")
            raise
        return
    recorder = PartitionRecorder.of_step(context, key)
    faults: dict[str, str] = {}
    partitions = context.partition_keys
    for partition in partitions:
        failed = []
        try:
            made = make(partition)
            yield recorder.materialization(partition, made)
            for result in evaluations(context.instance, key, partition, checks(partition, made)):
                yield result
                if not result.passed and result.severity == dg.AssetCheckSeverity.ERROR:
                    failed.append(f"check {result.check_name} failed: {result.description}")
        except dg.Failure as failure:
            failed.append(str(failure.description))
        except Exception as error:  # the partition's edge: its failure must not stop the others
            context.log.exception("%s failed", partition)
            failed.append(f"{type(error).__name__}: {error}")
        if failed:
            faults[partition] = "; ".join(failed)
    if faults:
        listed = "\n".join(f"{partition}: {reason}" for partition, reason in faults.items())
        message = f"{len(faults)} of {len(partitions)} partitions failed:\n{listed}"
        raise dg.Failure(message, metadata=faults, allow_retries=False)
    yield recorded_output()


def check_partitions(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    checks: Callable[[str], Iterable[dg.AssetCheckResult]],
) -> Iterator[PartitionCheckEvent]:
    """Check the partitions of a run, and yield what Dagster records of them.

    In a run of several partitions, those whose checks the step of the asset has made are left out.

    Args:
        context: of the step.
        key: the asset.
        checks: the results of the blocking checks of a partition.
    """
    if context.has_partition_key:
        yield from checks(context.partition_key)
        return
    step = context.op_execution_context
    done = partitions_checked_by(context.instance, context.selected_asset_check_keys, context.run.run_id)
    for partition in context.partition_keys:
        if partition not in done:
            yield from evaluations(context.instance, key, partition, checks(partition))
    for name in step.selected_output_names:
        yield dg.Output(None, output_name=name)
