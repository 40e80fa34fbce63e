"""The sensor NAME_stale_partitions: starts runs for stale partitions, then one run for the whole data set."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import dagster as dg

from headrace.assemble.run_groups import grouped
from headrace.assemble.waves import Attempts, Decision, PartitionWork, RunLimits, Situation, decide
from headrace_dagster.assets.gates import failed_catalog
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import AssetRecords
from headrace_dagster.assets.tags import DATASET_TAG, INPUT_TAG, REASON_TAG, WORK_TAG, range_tags, work_tags
from headrace_dagster.resources.storage import StorageResource
from headrace_dagster.sensors.activity import ActiveRun, active_runs, attempts_at, newest_run
from headrace_dagster.sensors.backfills import graph_of, pending_runs
from headrace_dagster.sensors.cancelled_runs import note_cancelled_runs
from headrace_dagster.sensors.due_work import DueWork, DueWorkReader
from headrace_dagster.sensors.loaded import ConfigOrigin
from headrace_dagster.sensors.missing_shards import SensorState

_SHOWN = 10
_INTERVAL_SECONDS = 1  # every round of the daemon, which takes 5 s


def stale_partitions_sensor(
    dataset: ProjectDataset, storage: StorageResource, origin: ConfigOrigin | None = None
) -> dg.SensorDefinition:
    """The sensor of a data set, whose relative URIs `storage` resolves and whose configuration is from `origin`."""
    config, keys = dataset.config, dataset.keys
    made = [key for key in dataset.assets() if key not in {keys.catalog, keys.recordings}]

    @dg.sensor(
        name=f"{config.name}_stale_partitions",
        target=dg.AssetSelection.assets(*made),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Compares every partition with what the catalog and the YAML ask for. Starts runs for stale "
        "partitions, and after them a run for snapshots, smoke test and report. Checks from time to time that all "
        "shards exist. Retries failed work with growing pauses, a limited number of times.",
    )
    def stale_partitions(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        graph = graph_of(context)
        reader = DueWorkReader(dataset, storage, AssetRecords(context.instance, graph.asset_check_keys))
        # What a backfill starts meanwhile is in both lists; in the other order, it could be in neither.
        runs = [*pending_runs(context.instance, graph), *active_runs(context.instance, dataset)]
        # Taken before anything is read, so that a later change is seen as one.
        tags = {DATASET_TAG: config.name, INPUT_TAG: reader.input_version()}
        mark = json.dumps([reader.outline(), newest_run(context.instance)])
        state = SensorState.from_cursor(context.cursor)
        state = state.looked(reader.folders(), config.partitioning().partition_keys(), time.time())
        if state.mark == mark and not state.missing:
            return _nothing("up to date", state)
        state = replace(state, mark=None)
        due = reader.read(state.of)
        if due is None:
            return _nothing("waiting for a scan of the source", state)
        if failed := failed_catalog(context.instance, keys.catalog):
            return _nothing(f"held back: the catalog failed its checks: {', '.join(failed)}", state)
        if origin is not None and (held := origin.why_held(config)):
            return _nothing(held, state)
        tokens = {"": due.token, **{name: work.token for name, work in due.partitions.items()}}
        note_cancelled_runs(context.instance, dataset, made, tokens)
        limits = RunLimits(starts_per_tick=config.runs.per_tick, runs_in_flight=config.runs.in_flight)
        situation = _situation(reader, due, runs)
        decision = decide(situation, limits)
        return dg.SensorResult(
            run_requests=_requests(reader, due, decision, situation.attempts, tags),
            skip_reason=_reason(due, decision),
            cursor=replace(state, mark=mark if decision.is_done else None).to_cursor(),
        )

    return stale_partitions


def _situation(reader: DueWorkReader, due: DueWork, runs: Sequence[ActiveRun]) -> Situation:
    keys, config = reader.keys, reader.config
    building = [run for run in runs if run.makes(reader.assets_of(list(reader.folders())))]
    everything = any(not run.partitions for run in building)
    layout, tokens = config.partitioning().partition_keys(), [work.token for work in due.partitions.values()]
    instance, last = reader.records.instance, due.rest if due.partitions else due.finish
    # What was sound after a run, and is lacking again, is other work: the YAML was changed there and back, say.
    sound_since = {key: reader.records.sound_since(key) for key in last}
    return Situation(
        partitions=due.partitions,
        hours=due.hours,
        finish=due.token if due.finish and not due.partitions else None,
        rest=due.token if due.rest else None,
        running=frozenset([*layout, *due.partitions] if everything else chain(*(run.partitions for run in building))),
        is_scanning=any(run.makes([keys.catalog]) for run in runs),
        is_finishing=any(run.makes(reader.last_assets()) for run in runs),
        attempts={
            **attempts_at(instance, tokens, work_tags(config.runs.partitions_per_run)),
            **attempts_at(instance, [due.token], sound_since=sound_since),
        },
    )


def _requests(
    reader: DueWorkReader,
    due: DueWork,
    decision: Decision,
    attempts: Mapping[str, Attempts],
    tags: Mapping[str, str],
) -> list[dg.RunRequest]:
    config = reader.config
    last = list(due.finish) if decision.finish else []
    if decision.rest:
        return [dg.RunRequest(asset_selection=list(due.rest), tags={**tags, WORK_TAG: due.token})]
    if not decision.partitions and last:
        return [dg.RunRequest(asset_selection=last, tags={**tags, WORK_TAG: due.token})]
    failed = [name for name, work in decision.partitions.items() if work.token in attempts]
    layout = config.partitioning().partition_keys()
    kinds = {name: (work.stages, work.reason) for name, work in decision.partitions.items()}
    groups = grouped(kinds, layout, config.runs.partitions_per_run, alone=failed)
    return [_request(reader, {name: decision.partitions[name] for name in group}, last, tags) for group in groups]


def _request(
    reader: DueWorkReader, works: Mapping[str, PartitionWork], last: Sequence[dg.AssetKey], tags: Mapping[str, str]
) -> dg.RunRequest:
    """The run of partitions that need the same work for the same reason."""
    partitions, work = list(works), next(iter(works.values()))
    tokens = dict(zip(work_tags(len(works)), (work.token for work in works.values()), strict=True))
    reason = {REASON_TAG: work.reason} if work.reason else {}
    is_range = len(partitions) > 1
    return dg.RunRequest(
        asset_selection=[*reader.assets_of(work.stages), *last],
        partition_key=None if is_range else partitions[0],
        tags={**tags, **tokens, **reason, **(range_tags(partitions) if is_range else {})},
    )


def _reason(due: DueWork, decision: Decision) -> dg.SkipReason | None:
    if decision.partitions or decision.finish or decision.rest:
        return None
    if not decision.paused:
        return dg.SkipReason("up to date")
    reasons = {name: f" ({work.reason})" for name, work in due.partitions.items() if work.reason}
    paused = list(decision.paused.items())[:_SHOWN]
    return dg.SkipReason("; ".join(f"{name}: {pause}{reasons.get(name, '')}" for name, pause in paused))


def _nothing(reason: str, state: SensorState) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=reason, cursor=state.to_cursor())
