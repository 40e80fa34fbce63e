"""NAME_stale_partitions: one run per partition that is not what it should be, then one for the whole data set."""

import json
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from assets.gates import failed_catalog
from assets.keys import DatasetKeys
from assets.records import Records
from assets.tags import DATASET_TAG, WORK_TAG
from headrace.config import DatasetConfig
from headrace.waves import Decision, Situation, decide
from resources.storage import StorageResource
from sensors.activity import ActiveRun, active_runs, attempts_at, newest_run
from sensors.level import AUDIO, Level, LevelReader
from sensors.loaded import why_held

_INTERVAL_SECONDS = 1  # every round of the daemon, which takes 5 s


def stale_partitions_sensor(
    config: DatasetConfig, storage: StorageResource, folder: Path | None = None
) -> dg.SensorDefinition:
    """The sensor of a data set, whose relative URIs `storage` resolves and whose YAML file lies in `folder`."""
    keys = DatasetKeys(config.name)

    @dg.sensor(
        name=f"{config.name}_stale_partitions",
        target=dg.AssetSelection.groups(config.name) - dg.AssetSelection.assets(keys.catalog),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Compares every partition with what the catalog and the YAML ask for. Starts a run for each that "
        "differs, and when all are done one for snapshots, smoke test and report. Failed work backs off, then rests.",
    )
    def stale_partitions(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        checks = context.repository_def.asset_graph.asset_check_keys
        reader = LevelReader(config, storage, Records(context.instance, checks))
        runs = active_runs(context.instance)
        mark = json.dumps([reader.outline(), newest_run(context.instance)])
        if context.cursor == mark:
            return _nothing("up to date", mark)
        level = reader.read()
        if level is None:
            return _nothing("waiting for a scan of the source", None)
        if failed := failed_catalog(context.instance, keys.catalog):
            return _nothing(f"held back: the catalog failed its checks: {', '.join(failed)}", None)
        if held := why_held(config, folder):
            return _nothing(held, None)
        decision = decide(_situation(reader, level, runs))
        return dg.SensorResult(
            run_requests=_requests(reader, level, decision),
            skip_reason=_reason(decision),
            cursor=mark if decision.is_done else None,
        )

    return stale_partitions


def _situation(reader: LevelReader, level: Level, runs: Sequence[ActiveRun]) -> Situation:
    keys, config = reader.keys, reader.config
    shards = reader.assets_of([AUDIO, *(latents.name for latents in config.latents)])
    building = [run for run in runs if run.makes(shards)]
    everything = any(run.partition is None for run in building)
    tokens = [*(work.token for work in level.partitions.values()), level.token]
    return Situation(
        partitions=level.partitions,
        hours=level.hours,
        finish=level.token if level.finish and not level.partitions else None,
        running=frozenset(level.partitions if everything else [run.partition or "" for run in building]),
        is_scanning=any(run.makes([keys.catalog]) for run in runs),
        is_finishing=any(run.makes(reader.last_assets()) for run in runs),
        attempts=attempts_at(reader.records.instance, tokens),
    )


def _requests(reader: LevelReader, level: Level, decision: Decision) -> list[dg.RunRequest]:
    name = reader.config.name
    last = list(level.finish) if decision.finish else []
    if not decision.partitions and last:
        return [dg.RunRequest(asset_selection=last, tags={DATASET_TAG: name, WORK_TAG: level.token})]
    return [
        dg.RunRequest(
            asset_selection=[*reader.assets_of(work.stages), *last],
            partition_key=partition,
            tags={DATASET_TAG: name, WORK_TAG: work.token},
        )
        for partition, work in decision.partitions.items()
    ]


def _reason(decision: Decision) -> dg.SkipReason | None:
    if decision.partitions or decision.finish:
        return None
    if not decision.paused:
        return dg.SkipReason("up to date")
    return dg.SkipReason("; ".join(f"{name}: {pause}" for name, pause in list(decision.paused.items())[:10]))


def _nothing(reason: str, cursor: str | None) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=reason, cursor=cursor)
