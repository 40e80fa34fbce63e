"""Makes the partitions of a run: one, or several one after the other, each with events of its own.

In a run of several partitions, a partition that fails or is superseded does not stop the others. At its end the step
fails with the reasons, and the partitions that are done stay materialized. Their checks are made in the step of the
asset, because steps that follow a failed one do not run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import dagster as dg

from headrace.config.dataset import DatasetConfig
from headrace_dagster.assets.superseded import SupersededError, note_superseded
from headrace_dagster.resources.dagster_internals.event_log import partitions_checked_by
from headrace_dagster.resources.dagster_internals.partition_events import (
    PartitionRecorder,
    evaluations,
    recorded_output,
)

PartitionEvent = dg.MaterializeResult[None] | dg.AssetMaterialization | dg.AssetCheckEvaluation
PartitionCheckEvent = dg.AssetCheckResult | dg.AssetCheckEvaluation | dg.Output[None]
PartitionChecks = Callable[[str, dg.MaterializeResult[None]], Iterable[dg.AssetCheckResult]]


def backfill_policy_of(config: DatasetConfig) -> dg.BackfillPolicy | None:
    """Limit of partitions that Dagster's own backfills put into one run; None leaves it at one."""
    most = config.runs.partitions_per_run
    return dg.BackfillPolicy.multi_run(most) if most > 1 else None


def make_partitions(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    make: Callable[[str], dg.MaterializeResult[None]],
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
        yield from _make_alone(context, make)
        return
    recorder = PartitionRecorder.of_step(context, key)
    faults, superseded = dict[str, str](), dict[str, str]()
    partitions = context.partition_keys
    for partition in partitions:
        try:
            yield from _make_one(recorder, partition, make, checks)
        except SupersededError as error:
            superseded[partition] = str(error)
        except dg.Failure as failure:
            faults[partition] = str(failure.description)
        except Exception as error:  # the partition's edge: its failure must not stop the others
            context.log.exception("%s failed", partition)
            faults[partition] = f"{type(error).__name__}: {error}"
    if superseded:
        note_superseded(context, _listed(superseded))
    if faults:
        message = f"{len(faults)} of {len(partitions)} partitions failed:\n{_listed(faults)}"
        raise dg.Failure(message, metadata=faults, allow_retries=False)
    if not superseded:  # otherwise the next run makes what follows
        yield recorded_output()


def _make_alone(
    context: dg.AssetExecutionContext, make: Callable[[str], dg.MaterializeResult[None]]
) -> Iterator[dg.MaterializeResult[None]]:
    """Make the only partition of a run; nothing if it is superseded."""
    try:
        made = make(context.partition_key)
    except SupersededError as error:
        note_superseded(context, str(error))
    except dg.DagsterExecutionInterruptedError:
        context.log.info("cancelled: finished shards are kept, and the next run goes on from them")
        raise
    else:
        yield made


def _make_one(
    recorder: PartitionRecorder,
    partition: str,
    make: Callable[[str], dg.MaterializeResult[None]],
    checks: PartitionChecks,
) -> Iterator[PartitionEvent]:
    """Make one of several partitions, and yield its events. Raises `dg.Failure` if a blocking check failed."""
    made, failed = make(partition), []
    yield recorder.materialization(partition, made)
    for result in evaluations(recorder.instance, recorder.key, partition, checks(partition, made)):
        yield result
        if not result.passed and result.severity == dg.AssetCheckSeverity.ERROR:
            failed.append(f"check {result.check_name} failed: {result.description}")
    if failed:
        raise dg.Failure("; ".join(failed))


def _listed(reasons: Mapping[str, str]) -> str:
    return "\n".join(f"{partition}: {reason}" for partition, reason in reasons.items())


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
